"""Zero: a replicated tensor becomes partial sums, R → P, without communication.

The rank at coordinate 0 of the axes keeps the values, the others hold zeros: the sum is unchanged.
"""

from __future__ import annotations

import numpy as np

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from . import checks
from .definition import Call, CollectiveDef, World, named_axes, nothing


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    checks.named("zero", layout, mesh, call.axes)
    checks.replicated("zero", layout, mesh, call.axes)
    checks.sums("zero", layout)
    return layout.with_partial((*layout.partial, *call.axes))


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    return [array if mesh.index(rank, step.axes) == 0 else np.zeros_like(array) for rank, array in enumerate(world)]


ZERO = CollectiveDef(
    name="zero",
    summary="The first rank of the group keeps its values, the others hold zeros; nothing is sent.",
    local=True,
    dual="zero",
    apply=_apply,
    group=named_axes,
    received=nothing,
    sent=nothing,
    rounds=nothing,
    staging=nothing,
    run=_run,
)
