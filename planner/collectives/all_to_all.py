"""All-to-all: a tensor sharded along one dim becomes sharded along another, S → S'."""

from __future__ import annotations

import numpy as np

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..errors import LayoutError
from . import checks
from .definition import Call, CollectiveDef, World, groups, named_axes, ring_rounds


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    checks.named("all_to_all", layout, mesh, call.axes)
    gathered = checks.suffix("all_to_all", layout, call.dim, call.axes)
    checks.dim_exists("all_to_all", layout, call.to_dim)
    if call.to_dim == call.dim:
        raise LayoutError(
            "collective.same-dim",
            f"all_to_all over {'·'.join(call.axes)} on {layout} takes from dim {call.dim} and gives to the same dim.",
            "Name two dims.",
        )
    return gathered.with_dim(call.to_dim, (*gathered.dims[call.to_dim], *call.axes))


def _received(step: Step, mesh: DeviceMesh) -> int:
    return step.source_elements // step.group_size * (step.group_size - 1)


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    out = list(world)
    for group in groups(mesh, step.axes):
        parts = [np.split(world[rank], len(group), axis=step.to_dim) for rank in group]
        for position, rank in enumerate(group):
            out[rank] = np.concatenate([part[position] for part in parts], axis=step.dim)
    return out


ALL_TO_ALL = CollectiveDef(
    name="all_to_all",
    summary="Every rank cuts its shard along one dim and joins what it receives along another.",
    local=False,
    dual="all_to_all",
    apply=_apply,
    group=named_axes,
    received=_received,
    sent=_received,
    rounds=ring_rounds,
    run=_run,
)
