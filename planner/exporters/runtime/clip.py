"""The norm of all gradients together, and by what they are multiplied to stay under a bound.

A gradient that several ranks hold alike counts once: each rank adds its share of the squares, and the ranks are summed.
"""

from __future__ import annotations

import torch
from torch import nn

from .gradients import own_gradients
from .in_stages import RunsInStages
from .layout import dims
from .mesh import Mesh
from .parameters import specs_of
from .steps import AllReduce


@torch.no_grad()
def gradient_norm(model: nn.Module, mesh: Mesh) -> torch.Tensor:
    """Return the square root of the sum of the squares of all gradients, the same on every rank."""
    squares = torch.zeros((), dtype=torch.float64, device=mesh.device)
    for name, (gradient, layout) in _gradients(model).items():
        sharded = mesh.size(*(axis for axes in dims(layout) for axis in axes))
        holding = model.ranks_holding(name) if isinstance(model, RunsInStages) else mesh.size(*mesh.sizes)
        # Squares of fp16 overflow, and those of bf16 are coarse.
        norm = torch.linalg.vector_norm(gradient, dtype=torch.float64)
        squares += norm.square() * (sharded / holding)
    several = tuple(axis for axis, size in mesh.sizes.items() if size > 1)
    return (AllReduce(axes=several)(squares, mesh) if several else squares).sqrt()


def clip_factor(norm: torch.Tensor, bound: float) -> torch.Tensor:
    """Return what gradients of this norm are multiplied by, so that their norm is at most `bound`."""
    return (bound / norm).clamp(max=1.0)


def _gradients(model: nn.Module) -> dict[str, tuple[torch.Tensor, str]]:
    """Return every gradient with its layout, by the full name of its parameter."""
    own, specs = own_gradients(model), specs_of(model)
    found = {
        name: (own[name].total, own[name].layout) if name in own else (parameter.grad, specs[name][1])
        for name, parameter in model.named_parameters()
    }
    return {name: (gradient, layout) for name, (gradient, layout) in found.items() if gradient is not None}
