"""Exchange: the general collective, from any layout to any other with the same partial axes.

Every rank receives exactly what it needs and does not hold (an all-to-all-v), which no other way
from layout to layout undercuts; the owners of a box share its demand equally.

Where the source replicates some of the axes that move, the group may do without these (`near_axes`):
every rank then fetches from the owners with its own coordinates on them. It receives as much, but over
the links of the smaller group, and who owns what many want sends more.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..core.slices import Ranges
from ..errors import LayoutError
from . import checks
from .boxes import Demand, demand, moved_axes, near_axes, near_demand
from .definition import Call, CollectiveDef, World, groups
from .messages import kept_box, transfers


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    target = checks.moved("exchange", layout, mesh, call.target)
    choices = moved_axes(layout, target, call.shape, mesh), near_axes(layout, target, call.shape, mesh)
    if call.axes and set(call.axes) not in map(set, choices):
        raise LayoutError(
            "collective.group",
            f"exchange from {layout} to {target} within groups over {'·'.join(call.axes)}: it runs over "
            f"{' or '.join('·'.join(axes) or 'no axis' for axes in dict.fromkeys(choices))}.",
            "Name one of these, or none.",
        )
    return target


def _group(layout: Layout, mesh: DeviceMesh, call: Call) -> Axes:
    return call.axes or moved_axes(layout, call.target or layout, call.shape, mesh)


def _demand(step: Step, mesh: DeviceMesh) -> Demand:
    if set(step.axes) != set(moved_axes(step.source, step.target, step.shape, mesh)):
        return near_demand(step.source, step.target, step.shape, mesh)
    return demand(step.source, step.target, step.shape, mesh)


def _received(step: Step, mesh: DeviceMesh) -> int:
    return _demand(step, mesh).received


def _sent(step: Step, mesh: DeviceMesh) -> float:
    return _demand(step, mesh).sent


def _rounds(step: Step, mesh: DeviceMesh) -> int:
    return _demand(step, mesh).pieces


def _staging(step: Step, mesh: DeviceMesh) -> int:
    moved = _demand(step, mesh)
    return moved.received + ceil(moved.sent)


def exchanged(step: Step, world: World, mesh: DeviceMesh) -> World:
    """Return what ranks hold after the messages: the sum of what they kept and of all that came in."""
    out: World = []
    for rank, array in enumerate(world):
        out.append(np.zeros(step.target.shape_of(step.shape, mesh, rank), array.dtype))
        kept = kept_box(step.source, step.target, step.shape, mesh, rank)
        if kept is not None:
            out[rank][_index(kept[1])] = array[_index(kept[0])]
    for group in groups(mesh, step.axes):
        for message in transfers(step.source, step.target, step.shape, mesh, group):
            packed = world[message.sender][_index(message.source)].reshape(-1)
            place = out[message.receiver][_index(message.target)]
            place.flat[message.start : message.stop] += packed[message.start : message.stop]
    return out


def _index(box: Ranges) -> tuple[Any, ...]:
    """Return what selects a box as a view, also of a scalar."""
    return (*(slice(start, stop) for start, stop in box), ...)


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
    staging=_staging,
    run=exchanged,
)
