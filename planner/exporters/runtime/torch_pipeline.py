"""Run the stages of a pipeline by a schedule of `torch.distributed.pipelining`, where it has the schedule.

A stage there gets tensors from the stage before it alone, and what else `step` is given is cut into microbatches. So
each stage is given the numbers of the microbatches, and takes their inputs itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn

from .data import Batch
from .layout import local_shape
from .mail import dtype_of, sent
from .mesh import Mesh
from .passes import Passes
from .settings import Settings
from .staged import Staged
from .stages import Pipeline, Stage, Wire
from .steps import logged

_ONE_STAGE = ("ScheduleGPipe", "Schedule1F1B")
_LOOPED = ("ScheduleInterleaved1F1B", "ScheduleLoopedBFS", "ScheduleInterleavedZeroBubble")
_SPLITTING = ("ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble", "ScheduleDualPipeV")
_FOLDED = ("ScheduleZBVZeroBubble", "ScheduleDualPipeV")


def by_torch(pipeline: Pipeline, schedule: str) -> Callable[[Mesh], Staged]:
    """Return what builds this rank's stages, as models without stages are built.

    Parameters
    ----------
    schedule
        Name of a class of `torch.distributed.pipelining`.

    Raises
    ------
    ValueError
        Where it has no such schedule, or can't run these stages.
    """
    problem = _problem(pipeline, schedule)
    if problem:
        raise ValueError(f"torch.distributed.pipelining can't run this pipeline: {problem}; run it by its table")
    return lambda mesh: _ByTorch(pipeline, mesh, schedule)


def _problem(pipeline: Pipeline, schedule: str) -> str:
    if schedule not in (*_ONE_STAGE, *_LOOPED, *_FOLDED):
        return f"it has no {schedule}"
    if len(pipeline.chains) > 1:
        return f"it has one chain of stages, not {len(pipeline.chains)}"
    for wire in pipeline.wires:
        if wire.target != wire.source + 1:
            return f"{wire.value} goes from stage {wire.source} to stage {wire.target}, which is not the next one"
    ranks, stages = len(pipeline.rows), len(pipeline.stages)
    if schedule in _ONE_STAGE and ranks != stages:
        return f"{schedule} runs one stage on each rank, not {stages} on {ranks}"
    turned = [ranks - 1 - s % ranks if s // ranks % 2 and schedule in _FOLDED else s % ranks for s in range(stages)]
    if pipeline.placement != tuple(turned):
        return f"{schedule} lays stages out as {turned}, not {list(pipeline.placement)}"
    return ""


class _ByTorch(Staged):
    """A rank's stages, which run by a schedule of `torch.distributed.pipelining`."""

    def __init__(self, pipeline: Pipeline, mesh: Mesh, schedule: str) -> None:
        super().__init__(pipeline, mesh, [])
        splits = schedule in _SPLITTING
        self.turns = [_Turns(self, stage, module, splits=splits) for stage, module in self.modules_of.items()]
        self.schedule = schedule
        self._made: Any = None

    def run(self, batch: Batch, settings: Settings, scale: float) -> torch.Tensor:
        """Run the schedule."""
        if self._made is None:
            self._made = self._make(settings.microbatches)
        for turns in self.turns:
            turns.batch, turns.settings, turns.scale = batch, settings, scale
        numbers = torch.arange(settings.microbatches, device=self.mesh.device)
        losses: list[torch.Tensor] = []
        first = (numbers,) if any(turns.part == 0 for turns in self.turns) else ()
        self._made.step(*first, target=numbers, losses=losses, return_outputs=False, number=numbers)
        for (sender, _), messages in sent(self.pipeline).items():
            for message in messages if sender == self.place else ():
                x = _example(self.pipeline.wires[message.wire], self.mesh)
                logged(self.mesh, "send_recv", (self.pipeline.axis,), x, x)
        return torch.stack([loss.detach().double() for loss in losses]).sum() if losses else torch.zeros(())

    def _make(self, microbatches: int) -> Any:
        """Return the schedule on this rank's stages."""
        # It loads much of torch, which nobody else needs.
        from torch.distributed import pipelining

        stages = [
            pipelining.PipelineStage(
                turns, turns.part, len(self.pipeline.stages), self.mesh.device, input_args=turns.examples(),
                output_args=turns.results(), group=self.mesh.group((self.pipeline.axis,)),
                dw_builder=turns.put_off if turns.splits else None,
            )
            for turns in self.turns
        ]  # fmt: skip
        make = getattr(pipelining, self.schedule)
        # Every microbatch's loss is its share of the step's: nothing is divided by their number.
        given = stages[0] if self.schedule in _ONE_STAGE else stages
        return make(given, microbatches, loss_fn=lambda loss, _: loss, scale_grads=False)


class _Turns(nn.Module):
    """A stage whose forward gets what the stage before gives and the number of the microbatch."""

    batch: Batch
    settings: Settings
    scale: float

    def __init__(self, model: Staged, stage: int, module: nn.Module, *, splits: bool) -> None:
        super().__init__()
        # In a tuple: as an attribute, the model would be a part of its own part.
        self._model = (model,)
        self.number, self.part, self.splits = stage, model.pipeline.part(stage), splits
        wires = model.pipeline.wires
        self.received = [wire for wire in wires if wire.target == self.part]
        self.given = [wire.value for wire in wires if wire.source == self.part] or [self.stage.gives[-1]]
        self.passes = Passes(self.stage, module)
        self.later: Callable[[], None] | None = None

    @property
    def model(self) -> Staged:
        """All stages of this rank."""
        return self._model[0]

    @property
    def stage(self) -> Stage:
        """What the stage takes and gives."""
        return self.model.pipeline.stages[self.part]

    def forward(self, *received: torch.Tensor, number: torch.Tensor) -> Any:
        """Return what goes to the next stage, or the loss by its share."""
        # The first stage gets the number once more.
        found = _Pass.apply(
            self, int(number.item()), torch.ones((), requires_grad=True), *received[: len(self.received)]
        )
        return found if self.part + 1 < len(self.model.pipeline.stages) else found[0]

    def put_off(self) -> Callable[[], None]:
        """Return what computes the gradients of the weights for the backward that has just run."""
        later, self.later = self.later, None
        assert later is not None, "no backward has run"
        return later

    def examples(self) -> tuple[torch.Tensor, ...]:
        """Return tensors such as come in."""
        if self.part == 0:
            return (torch.empty(1, dtype=torch.int64, device="meta"),)
        return tuple(_example(wire, self.model.mesh) for wire in self.received)

    def results(self) -> tuple[torch.Tensor, ...]:
        """Return tensors such as go out."""
        if self.part == len(self.model.pipeline.stages) - 1:
            return (torch.empty((), dtype=self.model.mesh.compute, device="meta", requires_grad=True),)
        return tuple(_example(wire, self.model.mesh) for wire in self.model.pipeline.wires if wire.source == self.part)


class _Pass(torch.autograd.Function):
    """A microbatch's pass through a stage as one function, so that its backward is that of `Passes`.

    torch's own halves of a backward ask that each weight be used once. The tensor `tied` makes results need gradients
    on the first stage, too.
    """

    @staticmethod
    def forward(
        ctx: Any, turns: _Turns, index: int, tied: torch.Tensor, *received: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        ctx.turns, ctx.index = turns, index
        ctx.set_materialize_grads(False)
        model = turns.model
        model.begin(index, turns.settings)
        inputs, weight = model.inputs(turns.number, index, turns.batch, turns.settings)
        came = {
            wire.value: x.detach().requires_grad_(wire.gradient)
            for wire, x in zip(turns.received, received, strict=True)
        }
        with torch.enable_grad():
            values = turns.passes.forward(
                index, inputs, came, weight=weight, scale=turns.scale, regather=turns.settings.regather
            )
        found = tuple(values[name].detach() for name in turns.given)
        ctx.mark_non_differentiable(*(x for x in found if not x.is_floating_point()))
        return found

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> Any:
        turns, index = ctx.turns, ctx.index
        turns.model.begin(index, turns.settings)
        come = {name: g for name, g in zip(turns.given, gradients, strict=True) if g is not None}
        if turns.splits:
            found = turns.passes.backward_inputs(index, come)
            turns.later = partial(turns.passes.backward_weights, index)
        else:
            found = turns.passes.backward(index, come)
        return None, None, None, *(found.get(wire.value) for wire in turns.received)


def _example(wire: Wire, mesh: Mesh) -> torch.Tensor:
    shape = local_shape(wire.layout, wire.shape, mesh)
    return torch.empty(shape, dtype=dtype_of(wire, mesh), device="meta", requires_grad=wire.gradient)
