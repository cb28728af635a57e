"""What a redistribution moves and takes, step by step and in all, beside what it can't do without."""

from __future__ import annotations

from dataclasses import dataclass

from ..collectives import COLLECTIVES
from ..core.collective import Redistribution, Step
from ..core.mesh import DeviceMesh
from .bound import Bound, bound
from .prices import Price
from .reasons import reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAccount:
    """One step.

    Parameters
    ----------
    received_bytes, sent_bytes
        Of the busiest rank.
    staging_bytes
        What the busiest rank packs into and receives into, beside input and output.
    seconds
        What it takes.
    reason
        Why it is there, as a sentence without its full stop.
    """

    step: Step
    received_bytes: float
    sent_bytes: float
    staging_bytes: int
    seconds: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """A redistribution with its totals.

    Parameters
    ----------
    received_bytes
        What the busiest rank of every step receives, added up.
    bound_bytes
        What the busiest rank receives at least, in any way; None where no bound is known.
    sums
        Whether the bound is that of finishing sums, which can't always be reached.
    peak_bytes
        Input and output of the largest step.
    staging_bytes
        Of the step that stages most.
    """

    redistribution: Redistribution
    steps: tuple[StepAccount, ...]
    received_bytes: float
    bound_bytes: float | None
    sums: bool
    peak_bytes: int
    staging_bytes: int
    seconds: float


def account(moved: Redistribution, mesh: DeviceMesh, element_bytes: int, price: Price) -> Account:
    """Return what a redistribution moves and takes.

    Parameters
    ----------
    price
        Seconds of a step.
    """
    steps = tuple(
        StepAccount(
            step=step,
            received_bytes=COLLECTIVES[step.kind].received_bytes(step, mesh, element_bytes),
            sent_bytes=COLLECTIVES[step.kind].sent_bytes(step, mesh, element_bytes),
            staging_bytes=COLLECTIVES[step.kind].staging(step, mesh) * element_bytes,
            seconds=price(step),
            reason=reason,
        )
        for step, reason in zip(moved.steps, reasons(moved), strict=True)
    )
    least: Bound | None = bound(moved.source, moved.target, moved.shape, mesh)
    return Account(
        redistribution=moved, steps=steps, received_bytes=sum(step.received_bytes for step in steps),
        bound_bytes=None if least is None else least.elements * element_bytes,
        sums=least is not None and least.sums, peak_bytes=moved.peak_bytes(element_bytes),
        staging_bytes=max((step.staging_bytes for step in steps), default=0),
        seconds=sum(step.seconds for step in steps),
    )  # fmt: skip
