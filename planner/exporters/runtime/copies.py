"""Parameters that several stages hold: equal at the start, their gradients added over all copies once a step.

Copies on one rank are made one parameter. Between ranks, the first along the axis sends its values to the others.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import nn

from .gradients import own_gradients
from .layout import local_shape
from .mesh import Line, Mesh
from .parameters import specs_of, updates_of
from .stages import Pipeline
from .steps import logged


def owners(pipeline: Pipeline, name: str, part: int) -> tuple[int, ...]:
    """Return the coordinates along the axis of the ranks that hold a parameter of a part, ascending."""
    parts = pipeline.shared.get(name, (part,))
    return tuple(sorted({place for one in parts for place in pipeline.coordinates(one)}))


def owner_lines(pipeline: Pipeline) -> list[Line]:
    """Return the sets of coordinates that hold copies, for which there must be groups."""
    sets = {pipeline.coordinates(part) for part in range(len(pipeline.stages))}
    sets |= {owners(pipeline, name, parts[0]) for name, parts in pipeline.shared.items()}
    return [(pipeline.axis, places) for places in sorted(sets) if len(places) > 1]


def join(pipeline: Pipeline, modules: Mapping[int, nn.Module]) -> None:
    """Make copies of a parameter in several of this rank's parts (part → module) one parameter.

    Raises
    ------
    ValueError
        Where the parts of a parameter are not those that the table `shared` says, or its copies do not lie alike.
    """
    names = {part: dict(module.named_parameters()) for part, module in modules.items()}
    for name in sorted({name for own in names.values() for name in own}):
        parts = [part for part in sorted(modules) if name in names[part]]
        told = [part for part in sorted(modules) if part in pipeline.shared.get(name, parts[:1])]
        if parts != told:
            raise ValueError(f"{name} is in the stages {parts}, but the table of shared parameters says {told}")
        for part in parts[1:]:
            _join(modules[parts[0]], modules[part], name)


def _join(first: nn.Module, second: nn.Module, name: str) -> None:
    specs, updates = ([of(module).get(name) for module in (first, second)] for of in (specs_of, updates_of))
    if specs[0] != specs[1] or updates[0] != updates[1]:
        raise ValueError(f"the copies of {name} do not lie alike: {specs[0]}, {updates[0]}; {specs[1]}, {updates[1]}")
    path, _, last = name.rpartition(".")
    one, other = first.get_submodule(path), second.get_submodule(path)
    other.register_parameter(last, one.get_parameter(last))
    gradients = getattr(one, "gradients", {})
    if last in gradients:
        getattr(other, "gradients")[last] = gradients[last]  # noqa: B009


class Copies:
    """The parameters of this rank that other ranks along the axis hold, too.

    Parameters
    ----------
    model
        All of this rank's stages.
    places
        Parameter → the coordinates that hold it.
    """

    def __init__(self, model: nn.Module, mesh: Mesh, axis: str, places: Mapping[str, tuple[int, ...]]) -> None:
        self.model, self.mesh, self.axis = model, mesh, axis
        # All ranks go through their copies in the order of the names, so none waits for one that waits for it.
        self.places = {name: places[name] for name in sorted(places) if len(places[name]) > 1}

    @torch.no_grad()
    def spread(self) -> None:
        """Give all copies the values of the first."""
        parameters, ranks = dict(self.model.named_parameters()), self.mesh.ranks((self.axis,))
        for name, places in self.places.items():
            x = parameters[name].detach()
            dist.broadcast(x, ranks[places[0]], group=self.mesh.line(self.axis, places))
            logged(self.mesh, "broadcast", (self.axis,), x, x)

    @torch.no_grad()
    def add(self) -> None:
        """Add the finished gradients of all copies; one without gradient counts as zero."""
        own, specs = own_gradients(self.model), specs_of(self.model)
        parameters = dict(self.model.named_parameters())
        for name, places in self.places.items():
            parameter, apart = parameters[name], own.get(name)
            if not parameter.requires_grad:
                continue
            gradient = parameter.grad if apart is None else apart.total
            if gradient is None:
                layout = specs[name][1] if apart is None else apart.layout
                shape, dtype = local_shape(layout, specs[name][0], self.mesh), self.mesh.gradient or parameter.dtype
                gradient = parameter.new_zeros(shape, dtype=dtype)
            # A copy: autograd may have given another parameter the same tensor.
            gradient = gradient.clone(memory_format=torch.contiguous_format)
            dist.all_reduce(gradient, group=self.mesh.line(self.axis, places))
            logged(self.mesh, "all_reduce", (self.axis,), gradient, gradient)
            if apart is None:
                parameter.grad = gradient
            else:
                apart.total = gradient
