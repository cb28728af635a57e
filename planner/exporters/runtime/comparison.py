"""What one step of a model computes, and how far that is from what the whole model computes.

On every rank, the loss and the gradient of each parameter are held to ‖g − g₀‖ / max(‖g₀‖, 1e-6·‖all g₀‖).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import nn

from .data import synthetic_batch
from .gradients import own_gradients
from .layout import shard
from .mesh import Mesh
from .parameters import initialise, specs_of
from .settings import Settings
from .trainer import loss_of_step

LOSS = "loss"
TINY_SHARE = 1e-6
"""A gradient far smaller than all gradients together is compared on their scale times this."""


@dataclass(frozen=True)
class Computed:
    """What a rank has after one step without update.

    Parameters
    ----------
    tensors
        `loss`, and by parameter its gradient: zero where nothing read it.
    layouts
        Where each gradient lies.
    """

    tensors: dict[str, torch.Tensor]
    layouts: dict[str, str]


def compute(
    build: Callable[[Mesh], nn.Module], settings: Settings, mesh: Mesh, *, dtype: torch.dtype, seed: int
) -> Computed:
    """Return the loss and the gradients of a step of a model that has the same global values on any mesh."""
    mesh.compute = dtype
    model = build(mesh).to(dtype)
    initialise(model, mesh, seed=seed, std=0.1)
    vary(model, mesh, seed)
    loss = loss_of_step(model, synthetic_batch(0, settings.inputs, seed=seed), settings, mesh)
    own = {name: held for name, held in own_gradients(model).items() if held.total is not None}
    tensors = {LOSS: loss}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            held = own[name].total if name in own else parameter.grad
            tensors[name] = torch.zeros_like(parameter) if held is None else held
    layouts = {name: layout for name, (_, layout, _) in specs_of(model).items()}
    return Computed(tensors, layouts | {name: held.layout for name, held in own.items()})


def errors(found: Computed, whole: Mapping[str, torch.Tensor], mesh: Mesh) -> Iterator[tuple[str, float]]:
    """Yield the relative error of each of this rank's tensors; `whole` are those of the whole model."""
    all_gradients = torch.stack([tensor.norm() for name, tensor in whole.items() if name != LOSS]).norm()
    for name, tensor in found.tensors.items():
        expected = whole[name]
        mine = expected if name == LOSS else shard(expected, found.layouts[name], mesh)
        scale = max(expected.norm().item(), 0.0 if name == LOSS else TINY_SHARE * all_gradients.item())
        yield name, (tensor - mine).norm().item() / scale


@torch.no_grad()
def vary(model: nn.Module, mesh: Mesh, seed: int) -> None:
    """Move biases from 0 and norm weights from 1: equal numbers hide a shard that is doubled or in another's place."""
    own = dict(model.named_parameters())
    for name, (shape, layout, kind) in specs_of(model).items():
        if kind != "normal":
            generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}:{name}".encode()))
            lots = 0.1 * torch.randn(shape, generator=generator, dtype=torch.float64)
            own[name].add_(shard(lots, layout, mesh).to(own[name]))
