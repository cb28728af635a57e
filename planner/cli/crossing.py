"""The answer of `redistribute` where mesh or shape change on the way, or where MindSpore's planner is asked."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from ..collectives.handover import leg_received
from ..compose import cross
from ..core.crossing import Crossing, Holding, Leg
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.tensor import DTYPE_BYTES
from ..core.units import format_bytes, format_seconds
from ..cost import leg_seconds
from ..drawing import leg_reason
from ..hardware import cluster as cluster_named
from ..hardware import cluster_name
from ..redistribution import SearchOptions, crossing_bound, mindspore_operators
from ..simulate import slice_map
from ..surfaces import read_holding, read_shape
from .door import heading
from .redistribution import StateAnswer
from .slices_text import slices_text
from .table import columns


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingAnswer:
    """A layout on a mesh, of a tensor of some shape."""

    layout: str
    mesh: str
    shape: tuple[int, ...]

    def text(self, other: HoldingAnswer | None = None) -> str:
        """Return the layout, with shape and mesh where these differ from another holding's."""
        shape = "" if other and other.shape == self.shape else f" of {'×'.join(map(str, self.shape)) or 'a scalar'}"
        mesh = "" if other and other.mesh == self.mesh else f" on {self.mesh}"
        return f"{self.layout}{shape}{mesh}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LegAnswer:
    """One leg; bytes and seconds are those of a rank."""

    kind: str
    axes: tuple[str, ...]
    group_size: int
    gives: HoldingAnswer
    passed_bytes: int
    received_bytes: float
    seconds: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossingAnswer:
    """A crossing with its totals; `bound_bytes` is None where values are partial, `operators` are MindSpore's."""

    source: HoldingAnswer
    target: HoldingAnswer
    planner: str
    cluster: str
    dtype: str
    legs: tuple[LegAnswer, ...]
    operators: tuple[str, ...]
    seconds: float
    received_bytes: float
    bound_bytes: int | None
    peak_bytes: int
    states: tuple[StateAnswer, ...]


def crossing_answer(
    source: str, target: str, *, mesh: str, to_mesh: str | None, shape: str, to_shape: str | None, dtype: str,
    cluster: str | None, planner: str, options: SearchOptions,
) -> CrossingAnswer:  # fmt: skip
    """Return the way between two holdings; what is None is as it is before.

    Raises
    ------
    PlannerError
        Whatever is wrong with a layout, a mesh, a shape, the element type, the cluster or the planner.
    """
    before = read_holding(source, DeviceMesh.parse(mesh), read_shape(shape))
    after = read_holding(target, DeviceMesh.parse(to_mesh or mesh), read_shape(to_shape or shape))
    machines = cluster_named(cluster or cluster_name(before.mesh.device_count))
    machines.must_fit(before.mesh)
    found = cross(before, after, dtype=dtype, cluster=machines.name, planner=planner, options=options)
    size = DTYPE_BYTES[dtype]
    legs = tuple(_leg(leg, size, leg_seconds(leg, size, machines)) for leg in found.legs)
    bound = crossing_bound(before, after)
    return CrossingAnswer(
        source=_holding(before), target=_holding(after), planner=planner, cluster=machines.name, dtype=dtype, legs=legs,
        operators=() if planner == "cheapest" else mindspore_operators(found),
        seconds=sum(leg.seconds for leg in legs), received_bytes=sum(leg.received_bytes for leg in legs),
        bound_bytes=None if bound is None else bound * size, peak_bytes=found.peak_elements * size,
        states=_states(found),
    )  # fmt: skip


def crossing_text(found: CrossingAnswer, *, each: bool = False) -> str:
    """Return the answer for people; `each` draws what the ranks hold after every leg."""
    title = heading(f"{found.source.text()} → {found.target.text()}")
    lines = [f"{title}  {found.dtype} on {found.cluster}, planner {found.planner}", ""]
    rows = []
    place = found.source
    for number, leg in enumerate(found.legs, start=1):
        over = f"{'·'.join(leg.axes)} ({leg.group_size})" if leg.axes else ""
        rows.append(
            (f"{number}. {leg.kind.replace('_', '-')}", over, format_bytes(leg.passed_bytes),
             format_bytes(leg.received_bytes), format_seconds(leg.seconds), leg.gives.text(place))
        )  # fmt: skip
        place = leg.gives
    if rows:
        table = columns([("step", "over (ranks)", "passed", "received", "time", "gives"), *rows], "<<>>><")
        lines.append(table[0])
        for line, leg in zip(table[1:], found.legs, strict=True):
            lines += [line, f"   {leg.why}"]
    else:
        lines.append("Nothing has to move.")
    bound = "no lower bound applies to partial sums"
    if found.bound_bytes is not None:
        bound = f"lower bound {format_bytes(found.bound_bytes)}"
    lines += [
        "",
        f"time {format_seconds(found.seconds)}, received by a rank {format_bytes(found.received_bytes)}, "
        f"{bound}, peak {format_bytes(found.peak_bytes)} on a rank",
    ]
    if found.operators:
        lines.append(f"MindSpore's operators: {', '.join(found.operators)}")
    places = [found.source, *(leg.gives for leg in found.legs)]
    titles = ["before", *(f"after {number}" for number in range(1, len(places)))]
    for position, (title, place) in enumerate(zip(titles, places, strict=True)):
        if each or position in {0, len(titles) - 1}:
            mesh = DeviceMesh.parse(place.mesh)
            lines += ["", *slices_text(title, Layout.parse(place.layout), place.shape, mesh)]
    return "\n".join(lines)


def crossing_json(found: CrossingAnswer) -> dict[str, Any]:
    """Return the answer for programs."""
    return asdict(found)


def _holding(one: Holding) -> HoldingAnswer:
    return HoldingAnswer(layout=str(one.layout), mesh=str(one.mesh), shape=one.shape)


def _leg(leg: Leg, size: int, seconds: float) -> LegAnswer:
    return LegAnswer(
        kind=leg.kind, axes=leg.axes, group_size=leg.source.mesh.size_of(leg.axes), gives=_holding(leg.target),
        passed_bytes=max(prod(end.local_shape(0)) for end in (leg.source, leg.target)) * size,
        received_bytes=leg_received(leg) * size, seconds=seconds, why=leg_reason(leg),
    )  # fmt: skip


def _states(found: Crossing) -> tuple[StateAnswer, ...]:
    answers = []
    for place in (found.source, *(leg.target for leg in found.legs)):
        drawn = slice_map(place.layout, place.shape, place.mesh)
        answers.append(StateAnswer(layout=str(place.layout), slices=drawn.slices, note=drawn.note))
    return tuple(answers)
