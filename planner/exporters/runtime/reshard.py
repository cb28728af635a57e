"""Bring a value to its readers, and its gradient back: planned steps forward, planned steps backward.

Autograd alone would guess the backward of a collective from the collective; that guess is wrong in half the cases, so
both directions are given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from .mesh import Mesh
from .regather import remember, told_apart

Step = Callable[[torch.Tensor, Mesh], torch.Tensor]
Steps = Sequence[Step]


def reshard(
    value: torch.Tensor, mesh: Mesh, *, forward: Steps = (), backward: Steps = (), regather: bool = False
) -> torch.Tensor:
    """Return `value` as its readers want it.

    Parameters
    ----------
    forward
        Steps on the value.
    backward
        Steps on the gradient that the readers hand back.
    regather
        Do not keep the result for backward: do the forward steps again when backward needs it.
    """
    (result,) = fan_out(value, mesh, forward=[forward], backward=[(backward, (0,))], regather=regather)
    return result


def fan_out(
    value: torch.Tensor,
    mesh: Mesh,
    *,
    forward: Sequence[Steps],
    backward: Sequence[tuple[Steps, Sequence[int]]],
    regather: bool = False,
) -> tuple[torch.Tensor, ...]:
    """Return one tensor per group of readers.

    Parameters
    ----------
    forward
        Steps for each group; groups with equal steps share them.
    backward
        Steps on a gradient, with the positions of the groups whose gradients are added before these steps.
    """
    results: tuple[torch.Tensor, ...] = _FanOut.apply(value, mesh, forward, backward, regather)
    if regather:
        for steps, result in zip(forward, results, strict=True):
            remember(result, partial(run, steps, value.detach(), mesh))
    return results


def run(steps: Steps, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    """Do the steps one after the other."""
    for step in steps:
        x = step(x, mesh)
    return x


class _FanOut(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, value: torch.Tensor, mesh: Mesh, forward: Sequence[Steps], backward: Any, regather: bool
    ) -> tuple[torch.Tensor, ...]:
        ctx.mesh, ctx.steps = mesh, backward
        ctx.set_materialize_grads(False)
        made: dict[tuple[Step, ...], torch.Tensor] = {}
        results = []
        for steps in forward:
            key = tuple(steps)
            first = key not in made
            if first:
                made[key] = told_apart(run(steps, value, mesh)) if regather else run(steps, value, mesh)
            fresh = first and made[key] is not value
            results.append(made[key] if fresh else made[key].view_as(made[key]))
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        total: torch.Tensor | None = None
        for steps, members in ctx.steps:
            raw = [g for m in members if (g := gradients[m]) is not None]
            if raw:
                finished = run(steps, sum(raw[1:], raw[0]), ctx.mesh)
                total = finished if total is None else total + finished
        return total, None, None, None, None
