"""All-gather: shards become whole, S → R."""

from __future__ import annotations

import numpy as np

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from . import checks
from .definition import Call, CollectiveDef, World, groups, named_axes, ring_rounds


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    checks.named("all_gather", layout, mesh, call.axes)
    return checks.suffix("all_gather", layout, call.dim, call.axes)


def _received(step: Step, mesh: DeviceMesh) -> int:
    return step.target_elements - step.source_elements


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    out = list(world)
    for group in groups(mesh, step.axes):
        whole = np.concatenate([world[rank] for rank in group], axis=step.dim)
        for rank in group:
            out[rank] = whole
    return out


ALL_GATHER = CollectiveDef(
    name="all_gather",
    summary="Every rank receives the shards of all ranks of the group and joins them along a dim.",
    local=False,
    dual="reduce_scatter",
    apply=_apply,
    group=named_axes,
    received=_received,
    sent=_received,
    rounds=ring_rounds,
    run=_run,
)
