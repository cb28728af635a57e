"""Reduce-scatter: partial results become shards of the result, P → S, on one dim or several at once.

Where sizes do not divide, every rank sends each other one its part of the summands, and they are added where they
arrive: n - 1 parts of a rank's own size come in.
"""

from __future__ import annotations

import numpy as np

from ..core.collective import Step, further
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from . import checks
from .boxes import elements
from .definition import Call, CollectiveDef, World, even, groups
from .parts import cut, given, in_place
from .reduction import reduced


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    if call.target is not None and call.dim < 0:
        return checks.scattered("reduce_scatter", layout, call.target)
    checks.named("reduce_scatter", layout, mesh, call.axes)
    checks.dim_exists("reduce_scatter", layout, call.dim)
    left = checks.partial("reduce_scatter", layout, call.axes)
    return left.with_dim(call.dim, (*left.dims[call.dim], *call.axes))


def _group(layout: Layout, mesh: DeviceMesh, call: Call) -> Axes:
    if call.target is None or call.dim >= 0:
        return call.axes
    return checks.axes_of(further(layout, call.target))


def _received(step: Step, mesh: DeviceMesh) -> int:
    return (step.group_size - 1) * step.target_elements


def _sent(step: Step, mesh: DeviceMesh) -> int:
    if not even(step, mesh):
        held, kept = (elements(layout, step.shape, mesh) for layout in (step.source, step.target))
        return int(np.max(held - kept))
    return step.source_elements - step.target_elements


def _rounds(step: Step, mesh: DeviceMesh) -> int:
    return step.group_size - 1


def _staging(step: Step, mesh: DeviceMesh) -> int:
    if not even(step, mesh):
        return step.source_elements + step.group_size * step.target_elements
    return 0 if in_place(step.source_shape, given(step), mesh) else step.source_elements


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    out = list(world)
    for group in groups(mesh, step.axes):
        total = reduced([world[rank] for rank in group], step.source.reduce)
        for rank in group:
            out[rank] = cut(total, given(step), mesh, rank)
    return out


REDUCE_SCATTER = CollectiveDef(
    name="reduce_scatter",
    summary="Reduces the partial results of the group; every rank receives its shard of the result.",
    local=False,
    dual="all_gather",
    apply=_apply,
    group=_group,
    received=_received,
    sent=_sent,
    rounds=_rounds,
    staging=_staging,
    run=_run,
)
