"""Run the stages of a pipeline by its action table: each rank does its cells one after the other."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .actions import Action, read_row
from .data import Batch
from .mail import Mail, lines, reads, writes
from .mesh import Mesh
from .passes import Passes, Tensors
from .settings import Settings
from .staged import Staged
from .stages import Pipeline


def by_table(pipeline: Pipeline) -> Callable[[Mesh], Staged]:
    """Return what builds this rank's stages, as models without stages are built."""
    return lambda mesh: _ByTable(pipeline, mesh)


class _ByTable(Staged):
    """A rank's stages, which run by the table."""

    def __init__(self, pipeline: Pipeline, mesh: Mesh) -> None:
        super().__init__(pipeline, mesh, lines(pipeline))
        self.passes = {
            stage: Passes(pipeline.stages[pipeline.part(stage)], module) for stage, module in self.modules_of.items()
        }
        self.cells = read_row(pipeline.rows[self.place])
        self.mail = Mail(pipeline, mesh)
        # Gradients that wait for the end can go now, unless another stage of this rank adds to them.
        lasts = {action.stage: action for cell in self.cells for action in cell if action.kind in "BW"}
        self.final = {action for stage, action in lasts.items() if not self.shares(stage)}

    def run(self, batch: Batch, settings: Settings, scale: float) -> torch.Tensor:
        """Run all cells."""
        self.mail.begin()
        total = torch.zeros((), dtype=torch.float64, device=self.mesh.device)
        needs = [[message for action in cell for message in reads(self.pipeline, action)] for cell in self.cells]
        for index, cell in enumerate(self.cells):
            # What the next cell needs comes while this one computes.
            self.mail.ask(message for later in needs[index : index + 2] for message in later)
            for action in cell:
                self.begin(action.microbatch, settings, last=action in self.final)
                if action.kind == "F":
                    total = total + self._forward(action, batch, settings, scale)
                elif action.kind == "W":
                    self.passes[action.stage].backward_weights(action.microbatch)
                else:
                    self._backward(action)
            self.mail.sweep()
        self.mail.end()
        return total

    def _forward(self, action: Action, batch: Batch, settings: Settings, scale: float) -> torch.Tensor | float:
        """Run a stage's forward and send what it gives; return the loss, by its share, that the last stage gives."""
        received: Tensors = {}
        for message in reads(self.pipeline, action):
            wire = self.pipeline.wires[message.wire]
            received[wire.value] = self.mail.take(message).requires_grad_(wire.gradient)
        inputs, weight = self.inputs(action.stage, action.microbatch, batch, settings)
        passes = self.passes[action.stage]
        values = passes.forward(
            action.microbatch, inputs, received, weight=weight, scale=scale, regather=settings.regather
        )
        for message in writes(self.pipeline, action):
            self.mail.give(message, values[self.pipeline.wires[message.wire].value])
        return 0.0 if weight is None else values[passes.stage.gives[-1]].detach()

    def _backward(self, action: Action) -> None:
        """Run a stage's backward, or that of its inputs, and send the gradients of what it received."""
        gradients: Tensors = {}
        for message in reads(self.pipeline, action):
            name, gradient = self.pipeline.wires[message.wire].value, self.mail.take(message)
            gradients[name] = gradients[name] + gradient if name in gradients else gradient
        passes = self.passes[action.stage]
        run = passes.backward_inputs if action.kind == "I" else passes.backward
        found = run(action.microbatch, gradients)
        for message in writes(self.pipeline, action):
            self.mail.give(message, found.get(self.pipeline.wires[message.wire].value))
