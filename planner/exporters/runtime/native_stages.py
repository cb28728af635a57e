"""Run a step of a model in stages by a schedule of torch.distributed.pipelining, each stage spread by parallelize.py.

The last stage's loss is the sum over its targets, divided by the number of targets of the whole step: gradients add up
over ranks and microbatches. They are reduced once, after the last microbatch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import loss_parallel

from .data import Batch
from .native import Settings, shares, summed

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""What the last stage gives, and the labels → the sum of the losses."""


class Schedule(Protocol):
    """A schedule of torch.distributed.pipelining."""

    def step(
        self, *args: Any, target: torch.Tensor | None = None, losses: list[torch.Tensor] | None = None,
        return_outputs: bool = True,
    ) -> Any:  # fmt: skip
        """Run forward and backward of all microbatches of a batch."""


class Stages(nn.Module):
    """A rank's stages, as one model whose parameters have their names in the whole model.

    Parameters
    ----------
    own
        Stage → its module, spread over the ranks that run it.
    dim
        Mesh dim along which the stages lie.
    places
        Where along it each of all stages lies.
    taken
        Inputs that the first stage takes.
    schedule
        Makes what runs them, for a loss.
    shared
        Parameter that several stages hold → stage → its name there.
    """

    def __init__(
        self, own: Mapping[int, nn.Module], mesh: DeviceMesh, *, dim: str, places: tuple[int, ...],
        taken: tuple[str, ...], schedule: Callable[[Mapping[int, nn.Module], DeviceMesh, Loss], Schedule], loss: Loss,
        shared: Mapping[str, Mapping[int, str]],
    ) -> None:  # fmt: skip
        super().__init__()
        for index, module in own.items():
            self.add_module(f"stage{index}", module)
        self.own, self.mesh, self.dim, self.places, self.taken = dict(own), mesh, dim, places, taken
        self.loss, self.shared, self.targets = loss, shared, torch.ones(())
        self._make = schedule
        self._made: Schedule | None = None
        self.whole = {(stage, local): name for name, held in shared.items() for stage, local in held.items()}
        self.groups = {name: self._group({places[stage] for stage in shared[name]}) for name in sorted(shared)}

    def _group(self, owners: set[int]) -> dist.ProcessGroup | None:
        """Make the groups of the ranks at some places along the dim, and return this rank's; None if it has none."""
        names = self.mesh.mesh_dim_names
        assert names is not None
        lines = self.mesh.mesh.movedim(names.index(self.dim), -1).flatten(0, -2)
        group, _ = dist.new_subgroups_by_enumeration([[int(line[p]) for p in sorted(owners)] for line in lines])
        return group

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Parameter]]:
        """Yield the parameters of all stages by their names in the whole model; copies of one have the same name."""
        for stage, module in self.own.items():
            for name, parameter in module.named_parameters(prefix, recurse, remove_duplicate):
                yield self.whole.get((stage, name), name), parameter

    def own_parameters(self) -> list[nn.Parameter]:
        """Return this rank's parameters, those that several stages hold on the first of them alone."""
        first = {name: min(held) for name, held in self.shared.items()}
        return [
            parameter
            for stage, module in self.own.items()
            for name, parameter in module.named_parameters()
            if first.get(self.whole.get((stage, name), ""), stage) == stage
        ]

    def norm_of_all(self, norm: torch.Tensor) -> torch.Tensor:
        """Return the norm over all stages from that of this rank's."""
        square = norm.square()
        dist.all_reduce(square, group=self.mesh.get_group(self.dim))
        return square.sqrt()

    def loss_of_step(self, batch: Batch, settings: Settings) -> torch.Tensor:
        """Run the schedule on a global batch; return the loss on every rank and leave gradients in the parameters."""
        parts, self.targets = shares(batch, settings, self.mesh)
        # The schedule cuts what it is given into microbatches again.
        local = {feed.name: torch.cat(each) for feed, *each in zip(settings.inputs, *parts, strict=True)}
        made = self._made = self._made or self._make(self.own, self.mesh, self._share)
        given = tuple(local[name] for name in self.taken) if 0 in self.own else ()
        labels = local[settings.labels] if len(self.places) - 1 in self.own else None
        losses: list[torch.Tensor] = []
        with loss_parallel() if settings.vocab_sharded else nullcontext():
            made.step(*given, target=labels, losses=losses, return_outputs=False)
        self._add_copies()
        total = torch.zeros((), dtype=torch.float64, device=self.mesh.device_type)
        for loss in losses:
            total = total + (loss.full_tensor() if isinstance(loss, DTensor) else loss).detach()
        total = summed(total, settings, self.mesh)
        dist.all_reduce(total, group=self.mesh.get_group(self.dim))
        return total

    def _share(self, given: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return what a microbatch adds to the loss of the step."""
        return self.loss(given, labels) / self.targets

    @torch.no_grad()
    def _add_copies(self) -> None:
        """Give all copies of a parameter the sum of their gradients."""
        for name, group in self.groups.items():
            copies = [p for other, p in self.named_parameters() if other == name]
            gradients = [_gradient(p) for p in copies]
            if gradients and group is not None:
                total = torch.stack(gradients).sum(0)
                dist.all_reduce(total, group=group)
                for gradient in gradients:
                    gradient.copy_(total)


def _gradient(parameter: nn.Parameter) -> torch.Tensor:
    """Return this rank's shard of a gradient; zeros that are set where there is none."""
    if parameter.grad is None:
        parameter.grad = torch.zeros_like(parameter)
    gradient = parameter.grad
    return gradient.to_local() if isinstance(gradient, DTensor) else gradient
