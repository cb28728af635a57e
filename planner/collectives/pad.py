"""Pad: shards become partial sums, S → P, without communication.

Every rank puts its shard in its place in a tensor of zeros: the sum over the group is the whole.
"""

from __future__ import annotations

import numpy as np

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from . import checks
from .definition import Call, CollectiveDef, World, groups, named_axes, nothing


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    checks.named("pad", layout, mesh, call.axes)
    checks.sums("pad", layout)
    whole = checks.suffix("pad", layout, call.dim, call.axes)
    return whole.with_partial((*whole.partial, *call.axes))


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    out = list(world)
    for group in groups(mesh, step.axes):
        sizes = [world[rank].shape[step.dim] for rank in group]
        for position, rank in enumerate(group):
            around = [(0, 0)] * world[rank].ndim
            around[step.dim] = (sum(sizes[:position]), sum(sizes[position + 1 :]))
            out[rank] = np.pad(world[rank], around)
    return out


PAD = CollectiveDef(
    name="pad",
    summary="Every rank puts its shard in its place in a tensor of zeros; nothing is sent.",
    local=True,
    dual="slice",
    apply=_apply,
    group=named_axes,
    received=nothing,
    sent=nothing,
    rounds=nothing,
    staging=nothing,
    run=_run,
)
