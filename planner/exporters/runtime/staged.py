"""The stages that a rank holds, as one model: parameters by their names in the whole model, copies kept equal."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import torch
from torch import nn

from .check import check
from .copies import Copies, join, owner_lines, owners
from .data import Batch, local_batch, microbatch, share
from .gradients import finish_gradients
from .mesh import Line, Mesh
from .passes import Tensors
from .settings import Settings
from .stages import Pipeline
from .steps import AllReduce


class Staged(nn.Module):
    """A rank's stages. A subclass says how a step runs.

    Parameters
    ----------
    lines
        Further sets of coordinates along the axis of the pipeline for which there must be groups.

    Raises
    ------
    ValueError
        Where the pipeline does not fit the mesh, or copies of a parameter do not fit each other.
    """

    def __init__(self, pipeline: Pipeline, mesh: Mesh, lines: list[Line]) -> None:
        super().__init__()
        check(pipeline, mesh)
        self.pipeline, self.mesh = pipeline, mesh
        together = tuple(axis for axis, size in mesh.sizes.items() if size > 1) or (pipeline.axis,)
        sets = dict.fromkeys((*pipeline.groups, (pipeline.axis,), together))
        mesh.make_groups(sets, dict.fromkeys([*lines, *owner_lines(pipeline)]))
        self.place = mesh.coordinate(pipeline.axis)
        stages = pipeline.stages_at(self.place)
        for part in sorted(pipeline.part(stage) for stage in stages):
            self.add_module(f"stage{part}", pipeline.stages[part].build(mesh))
        self.modules_of = {stage: self.get_submodule(f"stage{pipeline.part(stage)}") for stage in stages}
        parts = {pipeline.part(stage): module for stage, module in self.modules_of.items()}
        join(pipeline, parts)
        self.places = {
            name: owners(pipeline, name, part)
            for part, module in parts.items()
            for name, _ in module.named_parameters()
        }
        self.copies = Copies(self, mesh, pipeline.axis, self.places)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """Yield the modules of all stages by the names that they have in the whole model."""
        memo = set() if memo is None else memo
        for module in self.children():
            yield from module.named_modules(memo, prefix, remove_duplicate)

    def compile(self, *arguments: object, **options: object) -> None:
        """Compile each stage."""
        for module in self.children():
            module.compile(*arguments, **options)

    def ranks_holding(self, name: str) -> int:
        """Return how many ranks hold a parameter or a shard of it."""
        others = (axis for axis in self.mesh.sizes if axis != self.pipeline.axis)
        return len(self.places[name]) * self.mesh.size(*others)

    def spread(self) -> None:
        """Give all copies of a parameter the values of the first."""
        self.copies.spread()

    def loss_of_step(self, batch: Batch, settings: Settings, *, scale: float = 1.0) -> torch.Tensor:
        """Run one step on a global batch; return its loss on every rank and leave gradients in the parameters.

        The gradients are multiplied by `scale`, the loss is not.
        """
        if settings.microbatches != self.pipeline.microbatches:
            raise ValueError(
                f"the schedule runs {self.pipeline.microbatches} microbatches, but a step has {settings.microbatches}"
            )
        total = self.run(batch, settings, scale).to(self.mesh.device, torch.float64)
        finish_gradients(self, self.mesh)
        self.copies.add()
        return AllReduce(axes=(self.pipeline.axis,))(total, self.mesh)

    @abstractmethod
    def run(self, batch: Batch, settings: Settings, scale: float) -> torch.Tensor:
        """Run forward and backward of all microbatches; return what this rank has of the loss, zero if nothing."""

    def shares(self, stage: int) -> bool:
        """Return whether another stage of this rank has a parameter of a stage."""
        others = [module for other, module in self.modules_of.items() if other != stage]
        held = {parameter for module in others for parameter in module.parameters()}
        return any(parameter in held for parameter in self.modules_of[stage].parameters())

    def begin(self, index: int, settings: Settings, *, last: bool = False) -> None:
        """Say which microbatch is worked on, and whether no more gradients come from its stage in this step."""
        self.mesh.sequence, self.mesh.last = index * (settings.samples // settings.microbatches), last

    def inputs(self, stage: int, index: int, batch: Batch, settings: Settings) -> tuple[Tensors, float | None]:
        """Return the inputs of the model that a stage takes of a microbatch, as this rank holds them.

        And, on the last stage, what the microbatch's loss counts for in that of the step.
        """
        part, count = self.pipeline.part(stage), settings.microbatches
        whole = microbatch(batch, settings.inputs, index, count)
        taken = [i for i, feed in enumerate(settings.inputs) if feed.name in self.pipeline.stages[part].takes]
        feeds = [settings.inputs[i] for i in taken]
        shards = local_batch(tuple(whole[i] for i in taken), feeds, self.mesh, self.mesh.compute)
        found = {feed.name: x for feed, x in zip(feeds, shards, strict=True)}
        last = part == len(self.pipeline.stages) - 1
        return found, share(batch, whole, settings.inputs, count) if last else None
