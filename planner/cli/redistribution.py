"""The answer of `redistribute`: every step with what it moves, how long it takes and what it is for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ..compose import account, pareto, redistribute
from ..core.collective import Redistribution
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.tensor import DTYPE_BYTES
from ..core.units import format_bytes, format_seconds
from ..hardware import cluster as cluster_named
from ..hardware import cluster_name
from ..redistribution import DEFAULT_OPTIONS, Account, SearchOptions, StepAccount
from ..simulate import slice_map
from ..surfaces import read_layouts, read_shape
from .door import heading
from .slices_text import slices_text
from .table import columns


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAnswer:
    """One step; bytes and seconds are those of the busiest rank."""

    kind: str
    axes: tuple[str, ...]
    group_size: int
    source: str
    target: str
    passed_bytes: int
    received_bytes: float
    staging_bytes: int
    seconds: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAnswer:
    """What the ranks hold at the start or after a step: index ranges by rank and dim."""

    layout: str
    slices: tuple[tuple[tuple[int, int], ...], ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontAnswer:
    """One of the ways of which no other is better in every respect."""

    steps: tuple[str, ...]
    seconds: float
    received_bytes: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A redistribution with its totals.

    Parameters
    ----------
    bound_bytes
        What the busiest rank receives at least in any way; None where no bound is known.
    bound_of_sums
        Whether it is the bound of finishing sums, which can't always be reached.
    gap
        By which part of its cost it may be above the best way; 0 where the search was exhaustive.
    front
        The ways of which no other is better, the fastest first, where they were asked for.
    """

    source: str
    target: str
    mesh: str
    cluster: str
    shape: tuple[int, ...]
    dtype: str
    objective: str
    steps: tuple[StepAnswer, ...]
    seconds: float
    received_bytes: float
    bound_bytes: float | None
    bound_of_sums: bool
    peak_bytes: int
    staging_bytes: int
    gap: float
    states: tuple[StateAnswer, ...]
    front: tuple[FrontAnswer, ...]


def answer(
    source: str, target: str, *, mesh: str, shape: str, dtype: str, cluster: str | None,
    options: SearchOptions = DEFAULT_OPTIONS, front: bool = False,
) -> Answer:  # fmt: skip
    """Return the best way between two layouts.

    Parameters
    ----------
    front
        Whether to find also the ways of which no other is better in every respect.

    Raises
    ------
    PlannerError
        Whatever is wrong with a layout, the mesh, the shape, the element type or the cluster.
    """
    sizes = read_shape(shape)
    ranks, (before, after) = read_layouts((source, target), DeviceMesh.parse(mesh), sizes)
    machines = cluster_named(cluster or cluster_name(ranks.device_count))
    machines.must_fit(ranks)
    moved = redistribute(before, after, ranks, shape=sizes, dtype=dtype, cluster=machines.name, options=options)
    found = account(moved, ranks, dtype=dtype, cluster=machines.name)
    size = DTYPE_BYTES[dtype]
    others: tuple[Redistribution, ...] = ()
    if front:
        others = pareto(before, after, ranks, shape=sizes, dtype=dtype, cluster=machines.name, options=options)
    return Answer(
        source=str(moved.source), target=str(moved.target), mesh=str(ranks), cluster=machines.name, shape=sizes,
        dtype=dtype, objective=options.objective, steps=tuple(_step(step, size) for step in found.steps),
        seconds=found.seconds, received_bytes=found.received_bytes, bound_bytes=found.bound_bytes,
        bound_of_sums=found.sums, peak_bytes=found.peak_bytes, staging_bytes=found.staging_bytes, gap=moved.gap,
        states=tuple(_state(layout, sizes, ranks) for layout in (moved.source, *(s.target for s in moved.steps))),
        front=tuple(_front(account(other, ranks, dtype=dtype, cluster=machines.name)) for other in others),
    )  # fmt: skip


def answer_text(found: Answer, *, each: bool = False) -> str:
    """Return the answer for people.

    Parameters
    ----------
    each
        Draw what the ranks hold after every step, not only before the first and after the last one.
    """
    shape = "×".join(map(str, found.shape))
    lines = [
        f"{heading(f'{found.source} → {found.target}')}  {shape} {found.dtype}, mesh {found.mesh} on {found.cluster}",
        "",
    ]
    rows = [
        (f"{number}. {step.kind.replace('_', '-')}", f"{'·'.join(step.axes)} ({step.group_size})",
         format_bytes(step.passed_bytes), format_bytes(step.received_bytes), format_seconds(step.seconds), step.target)
        for number, step in enumerate(found.steps, start=1)
    ]  # fmt: skip
    if rows:
        head = ("step", "over (ranks)", "passed", "received", "time", "gives")
        table = columns([head, *rows], "<<>>><")
        lines.append(table[0])
        for line, step in zip(table[1:], found.steps, strict=True):
            lines += [line, f"   {step.why}"]
    else:
        lines.append("Nothing has to move.")
    lines += ["", *_totals(found)]
    if found.front:
        ways = [
            (format_seconds(way.seconds), format_bytes(way.received_bytes), format_bytes(way.peak_bytes),
             ", then ".join(way.steps) or "nothing")
            for way in found.front
        ]  # fmt: skip
        lines += ["", "No way is better in every respect than one of these:", ""]
        lines += columns([("time", "received", "peak", "steps"), *ways], ">>><")
    mesh = DeviceMesh.parse(found.mesh)
    titles = ["before", *(f"after {number}" for number in range(1, len(found.states)))]
    for position, (title, state) in enumerate(zip(titles, found.states, strict=True)):
        if each or position in {0, len(titles) - 1}:
            lines += ["", *slices_text(title, Layout.parse(state.layout), found.shape, mesh)]
    return "\n".join(lines)


def answer_json(found: Answer) -> dict[str, Any]:
    """Return the answer for programs."""
    return asdict(found)


def _totals(found: Answer) -> list[str]:
    bound = "no lower bound is known"
    if found.bound_bytes is not None:
        what = "lower bound for finishing sums" if found.bound_of_sums else "lower bound"
        bound = f"{what} {format_bytes(found.bound_bytes)}"
    lines = [
        f"time {format_seconds(found.seconds)}, received by a rank {format_bytes(found.received_bytes)}, "
        f"{bound}, peak {format_bytes(found.peak_bytes)} on a rank, and {format_bytes(found.staging_bytes)} to pack"
    ]
    if found.gap:
        best = f"the best way may be up to {found.gap:.0%} better by {found.objective}"
        lines.append(f"The search was cut short: {best}.")
    return lines


def _step(found: StepAccount, size: int) -> StepAnswer:
    step = found.step
    return StepAnswer(
        kind=step.kind, axes=step.axes, group_size=step.group_size, source=str(step.source), target=str(step.target),
        passed_bytes=max(step.source_elements, step.target_elements) * size, received_bytes=found.received_bytes,
        staging_bytes=found.staging_bytes, seconds=found.seconds, why=found.reason,
    )  # fmt: skip


def _front(found: Account) -> FrontAnswer:
    return FrontAnswer(
        steps=tuple(str(step.step) for step in found.steps), seconds=found.seconds,
        received_bytes=found.received_bytes, peak_bytes=found.peak_bytes,
    )  # fmt: skip


def _state(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> StateAnswer:
    found = slice_map(layout, shape, mesh)
    return StateAnswer(layout=str(layout), slices=found.slices, note=found.note)
