"""All-gather: shards become whole, S → R, along one dim or several at once.

Several dims take one collective and a rearrangement of what comes in, which costs no more than along one dim: the
group is that of all their axes.
"""

from __future__ import annotations

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from . import checks
from .boxes import demand
from .definition import Call, CollectiveDef, World, even, groups, taken_axes
from .parts import in_place, join, taken


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    if call.target is not None and call.dim < 0:
        return checks.gathered("all_gather", layout, call.target)
    checks.named("all_gather", layout, mesh, call.axes)
    return checks.suffix("all_gather", layout, call.dim, call.axes)


def _received(step: Step, mesh: DeviceMesh) -> int:
    if not even(step, mesh):
        return demand(step.source, step.target, step.shape, mesh).received
    return step.target_elements - step.source_elements


def _sent(step: Step, mesh: DeviceMesh) -> float:
    if not even(step, mesh):
        return demand(step.source, step.target, step.shape, mesh).sent
    return step.target_elements - step.source_elements


def _rounds(step: Step, mesh: DeviceMesh) -> int:
    if not even(step, mesh):
        return demand(step.source, step.target, step.shape, mesh).pieces
    return step.group_size - 1


def _staging(step: Step, mesh: DeviceMesh) -> int:
    if not even(step, mesh):
        moved = demand(step.source, step.target, step.shape, mesh)
        return int(moved.received + moved.sent)
    return 0 if in_place(step.target_shape, taken(step), mesh) else step.target_elements


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    out = list(world)
    for group in groups(mesh, step.axes):
        whole = join([world[rank] for rank in group], taken(step), mesh)
        for rank in group:
            out[rank] = whole
    return out


ALL_GATHER = CollectiveDef(
    name="all_gather",
    summary="Every rank receives the shards of all ranks of the group and joins them along a dim, or along several.",
    local=False,
    dual="reduce_scatter",
    apply=_apply,
    group=taken_axes,
    received=_received,
    sent=_sent,
    rounds=_rounds,
    staging=_staging,
    run=_run,
)
