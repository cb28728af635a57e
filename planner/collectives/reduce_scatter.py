"""Reduce-scatter: partial sums become shards of the sum, P → S."""

from __future__ import annotations

import numpy as np

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from . import checks
from .definition import Call, CollectiveDef, World, groups, named_axes, ring_rounds


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    checks.named("reduce_scatter", layout, mesh, call.axes)
    checks.dim_exists("reduce_scatter", layout, call.dim)
    checks.sums("reduce_scatter", layout)
    reduced = checks.partial("reduce_scatter", layout, call.axes)
    return reduced.with_dim(call.dim, (*reduced.dims[call.dim], *call.axes))


def _received(step: Step, mesh: DeviceMesh) -> int:
    return step.source_elements - step.target_elements


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    out = list(world)
    for group in groups(mesh, step.axes):
        total = np.sum([world[rank] for rank in group], axis=0)
        parts = np.split(total, len(group), axis=step.dim)
        for rank, part in zip(group, parts, strict=True):
            out[rank] = part
    return out


REDUCE_SCATTER = CollectiveDef(
    name="reduce_scatter",
    summary="Adds the partial sums of the group; every rank receives its shard of the result.",
    local=False,
    dual="all_gather",
    apply=_apply,
    group=named_axes,
    received=_received,
    sent=_received,
    rounds=ring_rounds,
    run=_run,
)
