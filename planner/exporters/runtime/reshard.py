"""Bring a value to its readers, and its gradient back: planned steps forward, planned steps backward.

Autograd alone would guess the backward of a collective from the collective; that guess is wrong in half the cases, so
both directions are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from .gradients import Gradient, Step, Steps, run
from .mesh import Mesh
from .offload import fetch
from .regather import remember, told_apart


def reshard(
    value: torch.Tensor, mesh: Mesh, *, forward: Steps = (), backward: Steps = (), regather: bool = False,
    gradient: Gradient | None = None, ahead: int | None = None,
) -> torch.Tensor:  # fmt: skip
    """Return `value` as its readers want it.

    Parameters
    ----------
    forward
        Steps on the value.
    backward
        Steps on the gradient that the readers hand back.
    regather
        Do not keep the result for backward: do the forward steps again when backward needs it.
    gradient
        Where the gradient of a parameter goes, if not to its `grad`.
    ahead
        Of a parameter on the host: how many further ones are brought to the device meanwhile; None for any other value.
    """
    (result,) = fan_out(
        value, mesh, forward=[forward], backward=[(backward, (0,))], regather=regather, gradient=gradient, ahead=ahead
    )
    return result


def fan_out(
    value: torch.Tensor,
    mesh: Mesh,
    *,
    forward: Sequence[Steps],
    backward: Sequence[tuple[Steps, Sequence[int]]],
    regather: bool = False,
    gradient: Gradient | None = None,
    ahead: int | None = None,
) -> tuple[torch.Tensor, ...]:
    """Return one tensor per group of readers.

    Parameters
    ----------
    forward
        Steps for each group; groups with equal steps share them.
    backward
        Steps on a gradient, with the positions of the groups whose gradients are added before these steps.
    """
    compiling = torch.compiler.is_compiling()
    if compiling and gradient is not None and len(backward) == 1 and not any(forward):
        # The backward of a compiled model may write into no object: `finish_gradients` does the steps.
        gradient.later, members = backward[0]
        backward, gradient = [((), members)], None
    wide = mesh.gradient if isinstance(value, nn.Parameter) else None
    results: tuple[torch.Tensor, ...] = _FanOut.apply(value, mesh, forward, backward, regather, gradient, ahead, wide)
    # What a compiled model keeps for its backward is its compiler's choice.
    if regather and not compiling:
        for steps, result in zip(forward, results, strict=True):
            remember(result, partial(_brought, value.detach(), mesh, steps, ahead))
    return results


def _brought(value: torch.Tensor, mesh: Mesh, steps: Steps, ahead: int | None) -> torch.Tensor:
    return run(steps, value if ahead is None else fetch(value, mesh, ahead), mesh)


class _FanOut(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        value: torch.Tensor,
        mesh: Mesh,
        forward: Sequence[Steps],
        backward: Any,
        regather: bool,
        gradient: Gradient | None,
        ahead: int | None,
        wide: torch.dtype | None,
    ) -> tuple[torch.Tensor, ...]:
        ctx.mesh, ctx.steps, ctx.gradient, ctx.wide = mesh, backward, gradient, wide
        ctx.set_materialize_grads(False)
        if ahead is not None:
            value = fetch(value, mesh, ahead)
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
        for way, (steps, members) in enumerate(ctx.steps):
            # In two lists, since torch.compile follows no assignment within a comprehension.
            given = [gradients[m] for m in members]
            raw = [g.to(ctx.wide or g.dtype) for g in given if g is not None]
            if raw and ctx.gradient is not None:
                ctx.gradient.add(way, steps, sum(raw[1:], raw[0]), ctx.mesh)
            elif raw:
                finished = run(steps, sum(raw[1:], raw[0]), ctx.mesh)
                total = finished if total is None else total + finished
        return total, *[None] * 7
