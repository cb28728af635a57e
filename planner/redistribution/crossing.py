"""The way from one holding to another: between meshes over the same ranks, through a reshape, or both.

Where the two meet (`meet`), the crossing is a view, the cheapest redistribution on the mesh and shape where they meet,
and a view. Nothing is gathered for the reshape's sake: what a rank needs and lacks is the same elements before and
after a view. Elsewhere (3×8 ranks and 8×3, `4 3 → 3 4`, parts that do not line up) the direct handover receives
exactly what a rank needs and lacks. A handover can't reduce: partial values are finished before it and made after it,
and of the layouts that allow this, those with the cheapest total are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from ..collectives.handover import handover_demand
from ..core.collective import Redistribution, Step
from ..core.crossing import HANDOVER, VIEW, Crossing, Holding, Leg
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from .meet import meet

PlanOn = Callable[[Layout, Layout, tuple[int, ...], DeviceMesh], Redistribution]
"""Source, target, shape and mesh → the cheapest redistribution."""
Cost = Callable[[Crossing], tuple[float, ...]]
"""What a crossing costs, the more important first."""


def plan_crossing(source: Holding, target: Holding, plan: PlanOn, cost: Cost, *, exchange: bool = True) -> Crossing:
    """Return the cheapest known way from one holding to another.

    Parameters
    ----------
    exchange
        Whether there may be a handover; without one, what does not meet is gathered whole.

    Raises
    ------
    LayoutError
        `mesh.matrix-ranks`, `reshape.elements`, `reshape.empty`, `handover.runs`; what `plan` raises.
    """
    met = meet(source, target)
    if met is not None:
        moved = _redistributed(met.source, met.target, plan)
        return joined(source, target, (*view(source, met.source), *moved, *view(met.target, target)))
    if not exchange:
        whole, cut = (_with(end, Layout.replicated(len(end.shape))) for end in (source, target))
        legs = (*_redistributed(source, whole, plan), *view(whole, cut), *_redistributed(cut, target, plan))
        return joined(source, target, legs)
    ways = []
    for start, end in product(_finished(source), _unfinished(target)):
        handover = Leg(kind=HANDOVER, source=start, target=end)
        legs = (*_redistributed(source, start, plan), handover, *_redistributed(end, target, plan))
        ways.append(joined(source, target, legs))
    return min(ways, key=lambda way: (*cost(way), len(way.legs)))


def crossing_bound(source: Holding, target: Holding) -> int | None:
    """Return the elements that the neediest rank must receive; None if values are partial before or after.

    Raises
    ------
    LayoutError
        As `plan_crossing`.
    """
    if source.layout.normal(source.mesh).partial or target.layout.normal(target.mesh).partial:
        return None
    return handover_demand(
        _with(source, Layout(source.layout.dims)), _with(target, Layout(target.layout.dims))
    ).received


def joined(source: Holding, target: Holding, legs: tuple[Leg, ...]) -> Crossing:
    """Return a crossing of legs that hold together."""
    place = source
    for leg in legs:
        assert leg.source == place
        place = leg.target
    assert place == target
    return Crossing(source=source, target=target, legs=legs)


def view(source: Holding, target: Holding) -> tuple[Leg, ...]:
    """Return the leg between two holdings of the same parts; none if they are one."""
    return () if source == target else (Leg(kind=VIEW, source=source, target=target),)


def _redistributed(source: Holding, target: Holding, plan: PlanOn) -> tuple[Leg, ...]:
    if source == target:
        return ()
    return step_legs(plan(source.layout, target.layout, source.shape, source.mesh).steps, source)


def step_legs(steps: Sequence[Step], source: Holding) -> tuple[Leg, ...]:
    """Return steps on one mesh and shape as legs from a holding."""
    legs = []
    for step in steps:
        target = Holding(mesh=source.mesh, shape=source.shape, layout=step.target)
        legs.append(Leg(kind=step.kind, source=source, target=target, step=step))
        source = target
    return tuple(legs)


def _finished(holding: Holding) -> Iterator[Holding]:
    """Yield holdings without partial values that a holding can be reduced to: whole, or sums scattered on a dim."""
    layout = holding.layout
    yield _with(holding, Layout(layout.dims))
    if layout.partial and layout.reduce == "sum":
        axes = tuple(axis for axis in holding.mesh.names if axis in layout.partial)
        for dim, before in enumerate(layout.dims):
            yield _with(holding, Layout(layout.dims).with_dim(dim, (*before, *axes)))


_unfinished = _finished
"""Partial sums are made of the same holdings: of shards by pad, of whole values by zero."""


def _with(holding: Holding, layout: Layout) -> Holding:
    return Holding(mesh=holding.mesh, shape=holding.shape, layout=layout)
