"""Local shards of parameters, initialised so that every mesh gives the same global model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from .gradients import Gradient, Steps
from .layout import local_shape, shard
from .mesh import Mesh

Spec = tuple[tuple[int, ...], str, str]
"""Global shape, layout as printed, initial values (`normal`, `ones`, `zeros`, or one of `UNTRAINED`)."""
UNTRAINED = ("frozen", "given")


@dataclass(frozen=True)
class Update:
    """How a parameter is updated whose gradient or optimizer state does not lie like the parameter.

    Parameters
    ----------
    gradient
        Layout of the gradient, if it is kept apart from the parameter's `grad`.
    deferred
        Whether raw gradients are kept over the microbatches.
    state
        Layout of the optimizer's values and state, if it has values of its own.
    place, state_place
        `device` or `host`: where the values are stored, and where the optimizer's values and state lie.
    master, reduce, publish
        Steps from the stored values to the optimizer's, from the gradient to the optimizer's layout, and from new
        values to where they are stored.
    """

    gradient: str | None = None
    deferred: bool = False
    place: str = "device"
    state: str | None = None
    state_place: str = "device"
    master: Steps = ()
    reduce: Steps = ()
    publish: Steps = ()


class Weights(nn.Module):
    """The parameters of one layer, each stored as this rank's shard.

    Parameters
    ----------
    updates
        Parameter name → how it is updated, where gradient or optimizer state do not lie like the parameter.
    specs
        Parameter name → global shape, layout, kind of initial values.

    Attributes
    ----------
    gradients
        Parameter name → its gradient, where that is kept apart.
    """

    def __init__(self, mesh: Mesh, updates: dict[str, Update] | None = None, /, **specs: Spec) -> None:
        super().__init__()
        self.mesh = mesh
        self.specs = specs
        self.updates = updates or {}
        self.gradients = {
            name: Gradient(update.gradient, deferred=update.deferred)
            for name, update in self.updates.items()
            if update.gradient is not None
        }
        for name, (shape, layout, kind) in specs.items():
            place = "cpu" if name in self.updates and self.updates[name].place == "host" else mesh.device
            empty = torch.empty(local_shape(layout, shape, mesh), device=place)
            self.register_parameter(name, nn.Parameter(empty, requires_grad=kind not in UNTRAINED))

    if TYPE_CHECKING:
        # Parameters and modules are held by name; torch says of neither which it is.
        def __getattr__(self, name: str) -> Any: ...

    def holding(self, modules: dict[str, nn.Module]) -> Weights:
        """Return itself, with modules put in by name."""
        for name, module in modules.items():
            self.add_module(name, module)
        return self


def specs_of(model: nn.Module) -> dict[str, Spec]:
    """Return the spec of every parameter by its full name."""
    return {
        f"{path}.{name}".lstrip("."): spec
        for path, module in model.named_modules()
        if isinstance(module, Weights)
        for name, spec in module.specs.items()
    }


def updates_of(model: nn.Module) -> dict[str, Update]:
    """Return the update of every parameter that has one of its own, by full name."""
    return {
        f"{path}.{name}".lstrip("."): update
        for path, module in model.named_modules()
        if isinstance(module, Weights)
        for name, update in module.updates.items()
    }


@torch.no_grad()
def initialise(model: nn.Module, mesh: Mesh, *, seed: int, std: float = 0.02) -> None:
    """Fill every parameter from a generator seeded by its name: the same global values on any mesh."""
    parameters = dict(model.named_parameters())
    for name, update in updates_of(model).items():
        if update.place == "host" and mesh.device.type == "cuda":
            # Only from pinned memory do copies run beside the computation.
            parameters[name].data = parameters[name].data.pin_memory()
    for name, (shape, layout, kind) in specs_of(model).items():
        if kind in {"normal", *UNTRAINED}:
            digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
            full = torch.randn(shape, generator=generator, dtype=torch.float32) * std
        else:
            full = torch.full(shape, float(kind == "ones"))
        parameters[name].copy_(shard(full, layout, mesh).to(parameters[name].dtype))
