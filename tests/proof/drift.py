"""How far one step in bf16 is from the same step in float64, on threads that add as NCCL and gloo do."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from types import ModuleType

import torch

from planner.compose import bundle
from planner.plan import Plan
from planner.proof import unsharded

from .threads import each_rank

PARTS = ("data", "gradients", "layout", "mesh", "parameters", "trainer")
Passed = Counter[tuple[str, tuple[str, ...], int, int]]


@dataclass(frozen=True)
class Stepped:
    """What a rank has after forward and backward.

    Parameters
    ----------
    gradients
        Parameter → its gradient, and the part of the float64 gradient that lies on this rank, if that was given.
    passed
        Kind, axes, bytes in and out of each collective.
    """

    gradients: dict[str, tuple[torch.Tensor, torch.Tensor | None]]
    passed: Passed


def drift(*plans: Plan) -> tuple[float, list[tuple[float, Passed]]]:
    """Return the error of the gradients in bf16 in one process, and in each plan, with what one of its ranks passed.

    The plans are those of one model. An error is the root of the mean over the parameters of (‖g − g₀‖ / ‖g₀‖)², where
    g₀ has the same parameters and inputs, and float64 for everything else.
    """
    whole = bundle(unsharded(plans[0]))
    exact = _steps(whole, 1, torch.float64)[0]
    wanted = {name: found for name, (found, _) in exact.gradients.items()}
    alone = _steps(whole, 1, torch.bfloat16, wanted)
    ran = [_steps(bundle(plan), plan.decisions.mesh.device_count, torch.bfloat16, wanted) for plan in plans]
    return _error(alone), [(_error(ranks), ranks[0].passed) for ranks in ran]


def _steps(
    files: dict[str, str], world: int, dtype: torch.dtype, wanted: dict[str, torch.Tensor] | None = None
) -> list[Stepped]:
    found = each_rank(files, world, partial(_step, dtype=dtype, wanted=wanted or {}))
    texts = [each for each in found if isinstance(each, str)]
    assert not texts, texts
    return [each for each in found if isinstance(each, Stepped)]


def _step(train: ModuleType, *, dtype: torch.dtype, wanted: dict[str, torch.Tensor]) -> Stepped:
    runtime = {part: sys.modules[f"parallel.{part}"] for part in PARTS}
    mesh = runtime["mesh"].Mesh(train.SETTINGS.mesh)
    mesh.compute, mesh.log = dtype, []
    model = train.MODEL(mesh).to(dtype)
    runtime["parameters"].initialise(model, mesh, seed=1, std=0.1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
    batch = runtime["data"].synthetic_batch(0, train.SETTINGS.inputs, seed=1)
    batch = tuple(x.bfloat16().to(x.dtype) if x.is_floating_point() else x for x in batch)
    runtime["trainer"].loss_of_step(model, batch, train.SETTINGS, mesh)
    specs = runtime["parameters"].specs_of(model)

    def expected(name: str) -> torch.Tensor | None:
        return runtime["layout"].shard(wanted[name], specs[name][1], mesh) if name in wanted else None

    own = runtime["gradients"].own_gradients(model)
    held = {name: own[name].total if name in own else p.grad for name, p in model.named_parameters()}
    gradients = {name: (found.double(), expected(name)) for name, found in held.items()}
    return Stepped(gradients=gradients, passed=Counter(mesh.log))


def _error(ranks: list[Stepped]) -> float:
    squares = []
    for name in ranks[0].gradients:
        pairs = [(found, exact) for found, exact in (rank.gradients[name] for rank in ranks) if exact is not None]
        off = sum((found - exact).square().sum() for found, exact in pairs)
        squares.append(float(off / sum(exact.square().sum() for _, exact in pairs)))
    return float((sum(squares) / len(squares)) ** 0.5)
