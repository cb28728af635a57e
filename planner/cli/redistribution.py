"""The answer of `redistribute`: every step with what it moves, how long it takes and what it is for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ..collectives import COLLECTIVES
from ..compose import redistribute
from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.tensor import DTYPE_BYTES
from ..core.units import format_bytes, format_seconds
from ..cost import step_seconds
from ..drawing import step_reason
from ..hardware import cluster as cluster_named
from ..hardware import cluster_name
from ..redistribution import lower_bound_elements
from ..simulate import slice_map
from ..surfaces import read_layouts, read_shape
from .door import heading
from .slices_text import slices_text
from .table import columns


@dataclass(frozen=True, slots=True, kw_only=True)
class StepAnswer:
    """One step; bytes and seconds are those of a rank."""

    kind: str
    axes: tuple[str, ...]
    group_size: int
    source: str
    target: str
    passed_bytes: int
    received_bytes: float
    seconds: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAnswer:
    """What the ranks hold at the start or after a step: index ranges by rank and dim."""

    layout: str
    slices: tuple[tuple[tuple[int, int], ...], ...]
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A redistribution with its totals; `bound_bytes` is None where no bound applies yet."""

    source: str
    target: str
    mesh: str
    cluster: str
    shape: tuple[int, ...]
    dtype: str
    steps: tuple[StepAnswer, ...]
    seconds: float
    received_bytes: float
    bound_bytes: int | None
    peak_bytes: int
    states: tuple[StateAnswer, ...]


def answer(source: str, target: str, *, mesh: str, shape: str, dtype: str, cluster: str | None) -> Answer:
    """Return the cheapest way between two layouts.

    Raises
    ------
    PlannerError
        Whatever is wrong with a layout, the mesh, the shape, the element type or the cluster.
    """
    sizes = read_shape(shape)
    ranks, (before, after) = read_layouts((source, target), DeviceMesh.parse(mesh), sizes)
    machines = cluster_named(cluster or cluster_name(ranks.device_count))
    machines.must_fit(ranks)
    moved = redistribute(before, after, ranks, shape=sizes, dtype=dtype, cluster=machines.name)
    size = DTYPE_BYTES[dtype]
    bound = lower_bound_elements(moved.source, moved.target, sizes, ranks)
    steps = tuple(_step(step, size, ranks, lambda s: step_seconds(s, size, ranks, machines)) for step in moved.steps)
    return Answer(
        source=str(moved.source), target=str(moved.target), mesh=str(ranks), cluster=machines.name, shape=sizes,
        dtype=dtype, steps=steps, seconds=sum(step.seconds for step in steps),
        received_bytes=sum(step.received_bytes for step in steps),
        bound_bytes=None if bound is None else bound * size, peak_bytes=moved.peak_elements * size,
        states=tuple(_state(layout, sizes, ranks) for layout in (moved.source, *(s.target for s in moved.steps))),
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
    bound = "no lower bound applies yet to partial sums"
    if found.bound_bytes is not None:
        bound = f"lower bound {format_bytes(found.bound_bytes)}"
    lines += [
        "",
        f"time {format_seconds(found.seconds)}, received by a rank {format_bytes(found.received_bytes)}, "
        f"{bound}, peak {format_bytes(found.peak_bytes)} on a rank",
    ]
    mesh = DeviceMesh.parse(found.mesh)
    titles = ["before", *(f"after {number}" for number in range(1, len(found.states)))]
    for position, (title, state) in enumerate(zip(titles, found.states, strict=True)):
        if each or position in {0, len(titles) - 1}:
            lines += ["", *slices_text(title, Layout.parse(state.layout), found.shape, mesh)]
    return "\n".join(lines)


def answer_json(found: Answer) -> dict[str, Any]:
    """Return the answer for programs."""
    return asdict(found)


def _step(step: Step, size: int, mesh: DeviceMesh, seconds: Callable[[Step], float]) -> StepAnswer:
    return StepAnswer(
        kind=step.kind, axes=step.axes, group_size=step.group_size, source=str(step.source), target=str(step.target),
        passed_bytes=max(step.source_elements, step.target_elements) * size,
        received_bytes=COLLECTIVES[step.kind].received_bytes(step, mesh, size), seconds=seconds(step),
        why=step_reason(step),
    )  # fmt: skip


def _state(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> StateAnswer:
    found = slice_map(layout, shape, mesh)
    return StateAnswer(layout=str(layout), slices=found.slices, note=found.note)
