"""All-reduce: partial results become whole ones, P → R."""

from __future__ import annotations

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from . import checks
from .definition import Call, CollectiveDef, World, groups, named_axes, nothing
from .reduction import reduced


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    checks.named("all_reduce", layout, mesh, call.axes)
    return checks.partial("all_reduce", layout, call.axes)


def _received(step: Step, mesh: DeviceMesh) -> float:
    return 2 * (step.group_size - 1) / step.group_size * step.source_elements


def _rounds(step: Step, mesh: DeviceMesh) -> int:
    return 2 * (step.group_size - 1)


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    out = list(world)
    for group in groups(mesh, step.axes):
        total = reduced([world[rank] for rank in group], step.source.reduce)
        for rank in group:
            out[rank] = total
    return out


ALL_REDUCE = CollectiveDef(
    name="all_reduce",
    summary="Reduces the partial results of the group; every rank receives the whole result.",
    local=False,
    dual="all_reduce",
    apply=_apply,
    group=named_axes,
    received=_received,
    sent=_received,
    rounds=_rounds,
    staging=nothing,
    run=_run,
)
