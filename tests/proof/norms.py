"""The norm of all gradients, by which they are clipped, as each rank finds it."""

from __future__ import annotations

import sys
from types import ModuleType

from planner.compose import bundle
from planner.plan import Plan

from .threads import each_rank


def gradient_norms(plan: Plan) -> tuple[float | str, ...]:
    """Return what each rank finds after one step without update, on threads."""
    return each_rank(bundle(plan), plan.decisions.mesh.device_count, _norm)


def _norm(train: ModuleType) -> float:
    parallel = {part: sys.modules[f"parallel.{part}"] for part in ("clip", "data", "mesh", "parameters", "trainer")}
    settings = train.SETTINGS
    mesh = parallel["mesh"].Mesh(settings.mesh)
    model = train.MODEL(mesh).double()
    parallel["parameters"].initialise(model, mesh, seed=0, std=0.1)
    batch = parallel["data"].synthetic_batch(0, settings.inputs, seed=0)
    parallel["trainer"].loss_of_step(model, batch, settings, mesh)
    found: float = parallel["clip"].gradient_norm(model, mesh).item()
    return found
