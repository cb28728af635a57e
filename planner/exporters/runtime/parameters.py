"""Local shards of parameters, initialised so that every mesh gives the same global model."""

from __future__ import annotations

import hashlib

import torch
from torch import nn

from .layout import local_shape, shard
from .mesh import Mesh

Spec = tuple[tuple[int, ...], str, str]
"""Global shape, layout as printed, initial values (`normal`, `ones` or `zeros`)."""


class Weights(nn.Module):
    """The parameters of one layer, each stored as this rank's shard.

    Parameters
    ----------
    specs
        Parameter name → global shape, layout, kind of initial values.
    """

    def __init__(self, mesh: Mesh, **specs: Spec) -> None:
        super().__init__()
        self.mesh = mesh
        self.specs = specs
        for name, (shape, layout, _) in specs.items():
            empty = torch.empty(local_shape(layout, shape, mesh), device=mesh.device)
            self.register_parameter(name, nn.Parameter(empty))


def specs_of(model: nn.Module) -> dict[str, Spec]:
    """Return the spec of every parameter by its full name."""
    return {
        f"{path}.{name}": spec
        for path, module in model.named_modules()
        if isinstance(module, Weights)
        for name, spec in module.specs.items()
    }


@torch.no_grad()
def initialise(model: nn.Module, mesh: Mesh, *, seed: int, std: float = 0.02) -> None:
    """Fill every parameter from a generator seeded by its name: the same global values on any mesh."""
    parameters = dict(model.named_parameters())
    for name, (shape, layout, kind) in specs_of(model).items():
        if kind == "normal":
            digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
            full = torch.randn(shape, generator=generator, dtype=torch.float32) * std
        else:
            full = torch.full(shape, float(kind == "ones"))
        parameters[name].copy_(shard(full, layout, mesh).to(parameters[name].dtype))
