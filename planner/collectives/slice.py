"""Slice: every rank keeps its part of what it holds whole, R → S, without communication."""

from __future__ import annotations

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from . import checks
from .definition import Call, CollectiveDef, World, named_axes, nothing
from .parts import cut


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    checks.named("slice", layout, mesh, call.axes)
    checks.dim_exists("slice", layout, call.dim)
    checks.replicated("slice", layout, mesh, call.axes)
    return layout.with_dim(call.dim, (*layout.dims[call.dim], *call.axes))


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    return [cut(array, ((step.dim, step.axes),), mesh, rank) for rank, array in enumerate(world)]


SLICE = CollectiveDef(
    name="slice",
    summary="Every rank keeps its part of a tensor that it holds whole; nothing is sent.",
    local=True,
    dual="pad",
    apply=_apply,
    group=named_axes,
    received=nothing,
    sent=nothing,
    rounds=nothing,
    staging=nothing,
    run=_run,
)
