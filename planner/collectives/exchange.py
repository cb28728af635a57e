"""Exchange: the general collective, from any layout to any other with the same partial axes.

Every rank receives exactly what it needs and does not hold (an all-to-all-v), which no other way
from layout to layout undercuts; the owners of a box share its demand equally. A permutation of
shards among ranks is the case in which every rank sends and receives one whole shard.
"""

from __future__ import annotations

import numpy as np

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..errors import LayoutError
from .boxes import Box, Demand, demand, kept_box, moved_axes, transfers
from .definition import Call, CollectiveDef, World, groups


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    target = call.target
    if target is None:
        raise LayoutError("collective.no-target", f"exchange on {layout} names no target.", "Give a layout.")
    if len(target.dims) != len(layout.dims):
        raise LayoutError(
            "layout.rank-mismatch",
            f"exchange from {layout} to {target}: {len(layout.dims)} dims and {len(target.dims)}.",
            "Give layouts of the same tensor.",
        )
    if (layout.partial, layout.reduce) != (target.partial, target.reduce):
        raise LayoutError(
            "collective.partial-changed",
            f"exchange from {layout} to {target} can't reduce or make partial results.",
            "Reduce them before it, or make them after it.",
        )
    if not moved_axes(layout, target, mesh):
        raise LayoutError(
            "collective.no-axes",
            f"exchange from {layout} to {target} has nothing to move.",
            "Leave it out.",
        )
    return target


def _group(layout: Layout, mesh: DeviceMesh, call: Call) -> Axes:
    return moved_axes(layout, call.target or layout, mesh)


def step_demand(step: Step, mesh: DeviceMesh) -> Demand:
    """Return what the busiest rank of an exchange moves."""
    return demand(step.source, step.target, step.shape, mesh)


def _received(step: Step, mesh: DeviceMesh) -> int:
    return step_demand(step, mesh).received


def _sent(step: Step, mesh: DeviceMesh) -> float:
    return step_demand(step, mesh).sent


def _rounds(step: Step, mesh: DeviceMesh) -> int:
    return step_demand(step, mesh).pieces


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    messages = transfers(step.source, step.target, step.shape, mesh)
    out: World = [np.zeros(step.target_shape, array.dtype) for array in world]
    for group in groups(mesh, step.axes):
        for position, rank in enumerate(group):
            kept = kept_box(step.source, step.target, step.shape, mesh, position)
            if kept is not None:
                out[rank][_index(kept[1])] = world[rank][_index(kept[0])]
        for message in messages:
            packed = world[group[message.sender]][_index(message.source)].reshape(-1)
            place = out[group[message.receiver]][_index(message.target)]
            place.flat[message.start : message.stop] = packed[message.start : message.stop]
    return out


def _index(box: Box) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in box)


EXCHANGE = CollectiveDef(
    name="exchange",
    summary="Every rank sends each box that it owns to the ranks that need it and lack it.",
    local=False,
    dual="exchange",
    apply=_apply,
    group=_group,
    received=_received,
    sent=_sent,
    rounds=_rounds,
    run=_run,
)
