"""Run the stages of a pipeline by its action table: each rank does its cells one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import torch
from torch import nn

from .actions import Action, read_row
from .check import check
from .copies import Copies, join, owner_lines, owners
from .data import Batch, local_batch, microbatch, share
from .gradients import finish_gradients
from .mail import Mail, lines, reads, writes
from .mesh import Mesh
from .passes import Passes, Tensors
from .regather import regathering
from .settings import Settings
from .stages import Pipeline
from .steps import AllReduce


def by_table(pipeline: Pipeline) -> Callable[[Mesh], Staged]:
    """Return what builds this rank's stages, as models without stages are built."""
    return lambda mesh: Staged(pipeline, mesh)


class Staged(nn.Module):
    """The stages of a model that a rank holds. Parameters have the names that they have in the whole model.

    Raises
    ------
    ValueError
        Where the pipeline does not fit the mesh, or copies of a parameter do not fit each other.
    """

    def __init__(self, pipeline: Pipeline, mesh: Mesh) -> None:
        super().__init__()
        check(pipeline, mesh)
        self.pipeline, self.mesh = pipeline, mesh
        together = tuple(axis for axis, size in mesh.sizes.items() if size > 1)
        channels = lines(pipeline)
        rest = [line for line in owner_lines(pipeline) if line not in channels]
        sets = (*pipeline.groups, (pipeline.axis,), together or (pipeline.axis,))
        mesh.make_groups(dict.fromkeys(sets), [*channels, *rest])
        place = mesh.coordinate(pipeline.axis)
        stages = {pipeline.part(stage): stage for stage in pipeline.stages_at(place)}
        for part in sorted(stages):
            self.add_module(f"stage{part}", pipeline.stages[part].build(mesh))
        modules = {part: self.get_submodule(f"stage{part}") for part in sorted(stages)}
        join(pipeline, modules)
        self.places = {
            name: owners(pipeline, name, part)
            for part, module in modules.items()
            for name, _ in module.named_parameters()
        }
        self.copies = Copies(self, mesh, pipeline.axis, self.places)
        self.passes = {stage: Passes(pipeline.stages[part], modules[part]) for part, stage in stages.items()}
        self.cells = read_row(pipeline.rows[place])
        self.mail = Mail(pipeline, mesh)

    def named_modules(
        self, memo: set[nn.Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, nn.Module]]:
        """Yield the modules of all stages by the names that they have in the whole model."""
        memo = set() if memo is None else memo
        for module in self.children():
            yield from module.named_modules(memo, prefix, remove_duplicate)

    def ranks_holding(self, name: str) -> int:
        """Return how many ranks hold a parameter or a shard of it."""
        return len(self.places[name]) * self.mesh.size(
            *(axis for axis in self.mesh.sizes if axis != self.pipeline.axis)
        )

    def spread(self) -> None:
        """Give all copies of a parameter the values of the first."""
        self.copies.spread()

    def loss_of_step(self, batch: Batch, settings: Settings, *, scale: float = 1.0) -> torch.Tensor:
        """Run one step on a global batch; return its loss on every rank and leave gradients in the parameters.

        The gradients are multiplied by `scale`.
        """
        if settings.microbatches != self.pipeline.microbatches:
            raise ValueError(
                f"the schedule runs {self.pipeline.microbatches} microbatches, but a step has {settings.microbatches}"
            )
        self.mail.begin()
        total = torch.zeros((), dtype=torch.float64, device=self.mesh.device)
        needs = [[m for action in cell for m in reads(self.pipeline, action)] for cell in self.cells]
        for index, cell in enumerate(self.cells):
            self.mail.ask(message for later in needs[index : index + 2] for message in later)
            for action in cell:
                self.mesh.sequence = action.microbatch * (settings.samples // settings.microbatches)
                if action.kind == "F":
                    loss = self._forward(action, batch, settings, scale)
                    total = total if loss is None else total + loss
                else:
                    self._backward(action)
            self.mail.sweep()
        self.mail.end()
        finish_gradients(self, self.mesh)
        self.copies.add()
        return AllReduce(axes=(self.pipeline.axis,))(total / scale, self.mesh)

    def _forward(self, action: Action, batch: Batch, settings: Settings, scale: float) -> torch.Tensor | None:
        """Run a stage's forward and send what it gives; return the microbatch's share of the loss on the last stage.

        The share is multiplied by `scale`.
        """
        passes, count = self.passes[action.stage], settings.microbatches
        part = microbatch(batch, settings.inputs, action.microbatch, count)
        received: Tensors = {}
        for message in reads(self.pipeline, action):
            wire = self.pipeline.wires[message.wire]
            received[wire.value] = self.mail.take(message).requires_grad_(wire.gradient)
        taken = [i for i, feed in enumerate(settings.inputs) if feed.name in passes.stage.takes]
        feeds = [settings.inputs[i] for i in taken]
        shards = local_batch(tuple(part[i] for i in taken), feeds, self.mesh, self.mesh.compute)
        inputs = {feed.name: x for feed, x in zip(feeds, shards, strict=True)}
        last = self.pipeline.part(action.stage) == len(self.pipeline.stages) - 1
        weight = share(batch, part, settings.inputs, count) * scale if last else None
        with regathering() if settings.regather else nullcontext():
            values = passes.forward(action.microbatch, inputs, received, weight)
        for message in writes(self.pipeline, action):
            self.mail.give(message, values[self.pipeline.wires[message.wire].value])
        return values[passes.stage.gives[-1]].detach() if last else None

    def _backward(self, action: Action) -> None:
        """Run a stage's backward, or a half of it, and send the gradients of what it received."""
        passes = self.passes[action.stage]
        if action.kind == "W":
            passes.backward_weights(action.microbatch)
            return
        gradients: Tensors = {}
        for message in reads(self.pipeline, action):
            name, gradient = self.pipeline.wires[message.wire].value, self.mail.take(message)
            gradients[name] = gradients[name] + gradient if name in gradients else gradient
        half = action.kind == "I"
        found = (passes.backward_inputs if half else passes.backward)(action.microbatch, gradients)
        for message in writes(self.pipeline, action):
            self.mail.give(message, found.get(self.pipeline.wires[message.wire].value))
