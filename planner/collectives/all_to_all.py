"""All-to-all: a tensor sharded along one dim becomes sharded along another, S → S'.

It may also take axes from several dims and give them to several others, in any order: every rank of the group holds a
piece for each.
"""

from __future__ import annotations

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..errors import LayoutError
from . import checks
from .boxes import demand
from .definition import Call, CollectiveDef, World, even, groups, taken_axes
from .parts import cut, given, in_place, join, taken


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    if call.target is not None and call.dim < 0:
        return checks.regrouped("all_to_all", layout, call.target)
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
    if not even(step, mesh):
        return demand(step.source, step.target, step.shape, mesh).received
    return step.source_elements // step.group_size * (step.group_size - 1)


def _sent(step: Step, mesh: DeviceMesh) -> float:
    if not even(step, mesh):
        return demand(step.source, step.target, step.shape, mesh).sent
    return _received(step, mesh)


def _rounds(step: Step, mesh: DeviceMesh) -> int:
    if not even(step, mesh):
        return demand(step.source, step.target, step.shape, mesh).pieces
    return step.group_size - 1


def _staging(step: Step, mesh: DeviceMesh) -> int:
    if step.dim < 0 or not even(step, mesh):
        moved = demand(step.source, step.target, step.shape, mesh)
        return int(moved.received + moved.sent)
    packed = 0 if in_place(step.source_shape, given(step), mesh) else step.source_elements
    return packed + (0 if in_place(step.target_shape, taken(step), mesh) else step.target_elements)


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    out = list(world)
    for group in groups(mesh, step.axes):
        for receiver in group:
            pieces = [cut(world[sender], given(step), mesh, receiver) for sender in group]
            out[receiver] = join(pieces, taken(step), mesh)
    return out


ALL_TO_ALL = CollectiveDef(
    name="all_to_all",
    summary="Every rank cuts its shard along one dim and joins what it receives along another.",
    local=False,
    dual="all_to_all",
    apply=_apply,
    group=taken_axes,
    received=_received,
    sent=_sent,
    rounds=_rounds,
    staging=_staging,
    run=_run,
)
