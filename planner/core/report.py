"""What an evaluation answers: costs as trees, collectives as rows.

Every number can be opened: a `CostItem` holds its formula and the items that it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import Diagnostic
from .timeline import StageTimes, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class CostItem:
    """A number with its explanation.

    Parameters
    ----------
    name
        What it is.
    value
        In `unit`.
    unit
        `s`, `B`, `FLOP`, `FLOP/s`, `B/s` or empty.
    formula
        How the value follows from the children or from the inputs, with the source of the formula.
    children
        The items that it is made of.
    """

    name: str
    value: float
    unit: str
    formula: str = ""
    children: tuple[CostItem, ...] = ()

    def walk(self) -> Iterator[CostItem]:
        """Yield this item and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def child(self, name: str) -> CostItem:
        """Return the direct child of this name; KeyError if there is none."""
        return {child.name: child for child in self.children}[name]


PHASES = ("forward", "backward", "update")
"""Parts of a training step; the update comes once, after all microbatches."""
OPTIMIZER, STORAGE = "optimizer", "storage"
"""Readers of a finished gradient that goes to the optimizer's state, and of new values on their way to the storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow:
    """One collective of a training step.

    Parameters
    ----------
    scope
        Title of the scope, empty for what is outside the layers.
    phase
        One of `PHASES`; `backward` includes fetching dropped parameters again.
    value
        The value or parameter that is moved.
    readers
        Names of the nodes that it is moved for (forward), or whose gradients are reduced (backward, or
        update if that is deferred); `OPTIMIZER` or `STORAGE` for what else an update moves.
    kind, axes, group_size
        The collective and its group.
    payload_bytes
        Bytes of the larger of its input and output on a rank, as passed to `torch.distributed`.
    wire_bytes
        Bytes that each rank receives.
    seconds
        Estimated time of one.
    count
        How often it happens in a step, microbatches and layers counted.
    source, target
        Printed layouts.
    parameter, again
        Whether a parameter or its gradient is moved; and whether this fetches a parameter again that was dropped after
        forward.
    gradients
        Of a bucket: the parameters whose gradients share it; `value` is the first of them, and `count` counts buckets
        that differ in their layers alone.
    """

    scope: str
    phase: str
    value: str
    readers: tuple[str, ...]
    kind: str
    axes: tuple[str, ...]
    group_size: int
    payload_bytes: int
    wire_bytes: float
    seconds: float
    count: int
    source: str
    target: str
    parameter: bool = False
    again: bool = False
    gradients: tuple[str, ...] = ()

    @property
    def reduces(self) -> bool:
        """Whether this is part of reducing the gradients of parameters, and not of moving them or new values later."""
        later = self.readers in {(OPTIMIZER,), (STORAGE,)}
        return self.parameter and self.phase != "forward" and not self.again and not later


@dataclass(frozen=True, slots=True, kw_only=True)
class StageReport:
    """One stage of a pipeline.

    Parameters
    ----------
    ranks
        Coordinates along the pipeline's axis that hold it.
    items
        Operators and runs of layers that it runs, in order.
    times
        Seconds and bytes of one microbatch.
    memory
        Item of the memory report → bytes, with one microbatch under way.
    flops
        Forward and backward FLOPs of one microbatch on one device.
    """

    index: int
    ranks: tuple[int, ...]
    items: tuple[str, ...]
    times: StageTimes
    memory: tuple[tuple[str, float], ...]
    flops: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReport:
    """The pipeline of a priced plan.

    Parameters
    ----------
    rank_memory
        Bytes that each rank of the pipeline holds at its peak.
    bound
        Seconds that no order of these stages can go below.
    bubbles
        Definition → share, as in `schedules.Bubble`.
    note
        How good an automatic schedule is; empty for others.
    """

    timeline: Timeline
    stages: tuple[StageReport, ...]
    rank_memory: tuple[float, ...]
    bound: float
    bubbles: tuple[tuple[str, float], ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The priced plan.

    Parameters
    ----------
    step_time
        Seconds of an optimizer step, as an estimate with the interval `(lower, upper)`.
    memory
        Bytes on the fullest device.
    capacity_bytes
        Memory of a device.
    flops
        Forward and backward FLOPs of the whole model in a step.
    mfu
        Model FLOPs over what all devices could do in the step time.
    samples_per_second, tokens_per_second
        Throughput of the whole cluster; a model without sequences has no tokens.
    host
        Bytes in the memory of the machine around a device, for this device; None if nothing lies there.
    pipeline
        None for a model in one piece.
    """

    step_time: CostItem
    interval: tuple[float, float]
    memory: CostItem
    capacity_bytes: float
    flops: float
    mfu: float
    samples_per_second: float
    tokens_per_second: float | None
    collectives: tuple[CollectiveRow, ...]
    diagnostics: tuple[Diagnostic, ...]
    host: CostItem | None = None
    pipeline: PipelineReport | None = None
