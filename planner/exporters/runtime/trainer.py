"""Train a bundle's model: the loss and the gradients of a step, and what an optimizer step is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from .clip import clip_factor, gradient_norm
from .data import Batch, Source, local_batch, microbatch, share, synthetic_batch
from .feedback import rescale
from .gradients import finish_gradients, keep_gradients_in
from .in_stages import RunsInStages
from .mesh import Mesh
from .optimizer import MasterAdamW
from .rate import Rate
from .regather import regathering
from .resume import Checkpoints
from .scaling import LossScale
from .settings import Settings


def loss_of_step(model: nn.Module, batch: Batch, settings: Settings, mesh: Mesh, *, scale: float = 1.0) -> torch.Tensor:
    """Run forward and backward of one step on a global batch; gradients are left in the parameters.

    The loss is the mean of those of the microbatches. Where labels may be ignored, each microbatch counts by its share
    of those that are not, which makes it the mean over all valid targets of the step.

    Parameters
    ----------
    scale
        What the gradients are to be multiplied by; the loss that is returned is not.
    """
    if settings.gradients is not None:
        settings.gradients.open(model, mesh)
    scale *= settings.factor
    if isinstance(model, RunsInStages):
        return model.loss_of_step(batch, settings, scale=scale)
    total = torch.zeros((), device=mesh.device)
    count = settings.microbatches
    compute = next((p.dtype for p in model.parameters()), torch.float64)
    for index in range(count):
        mesh.sequence, mesh.last = index * (settings.samples // count), index == count - 1
        part = microbatch(batch, settings.inputs, index, count)
        counts_for = share(batch, part, settings.inputs, count)
        with regathering() if settings.regather else nullcontext():
            loss = model(*local_batch(part, settings.inputs, mesh, compute)) * counts_for
        (loss if scale == 1 else loss * scale).backward()
        total = total + loss.detach()
    finish_gradients(model, mesh)
    return total


@dataclass(frozen=True)
class State:
    """How far training is: all that a checkpoint keeps beside tensors.

    Batches, dropout and the learning rate follow from it; no generator has a state of its own.

    Parameters
    ----------
    step
        Optimizer steps that were taken, skipped ones among them.
    samples
        Samples that were taken.
    skipped
        Steps that were left out because gradients were not finite.
    scale
        Loss scale, where there is one.
    """

    seed: int
    step: int = 0
    samples: int = 0
    skipped: int = 0
    scale: LossScale | None = None

    def kept(self) -> dict[str, Any]:
        """Return it as a checkpoint keeps it."""
        return asdict(self)

    def resumed(self, kept: Mapping[str, Any]) -> State:
        """Return the state that a checkpoint kept; this one's loss scale, if the run before had none or needs none."""
        scale = LossScale(**kept["scale"]) if self.scale and kept.get("scale") else self.scale
        counts = {name: kept[name] for name in ("step", "samples", "skipped") if name in kept}
        return replace(self, scale=scale, **counts)


@dataclass(frozen=True)
class Taken:
    """What a step was: its number, loss, learning rate, and the norm of its gradients where that was asked for."""

    step: int
    loss: torch.Tensor
    rate: float
    norm: torch.Tensor | None


class Training:
    """A model in training.

    Parameters
    ----------
    state
        Where to begin, unless a checkpoint says.
    clip
        Largest norm of all gradients together; longer ones are scaled down.
    checkpoints
        What to go on from, and what to save.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: Settings,
        mesh: Mesh,
        optimizer: MasterAdamW,
        *,
        rate: Rate,
        state: State,
        clip: float | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        self.model, self.settings, self.mesh, self.optimizer = model, settings, mesh, optimizer
        self.rate, self.clip, self.checkpoints = rate, clip, checkpoints or Checkpoints()
        if settings.gradient_dtype:
            keep_gradients_in(model, mesh, getattr(torch, settings.gradient_dtype))
        if settings.gradients is not None:
            # A checkpoint may have what their compression kept.
            settings.gradients.open(model, mesh)
        kept = self.checkpoints.begin(model, optimizer, mesh, {"seed": state.seed})
        self.state = state.resumed(kept)
        self._scaled(State(state.seed, scale=LossScale(**kept["scale"]) if kept.get("scale") else None))

    def step(self, source: Source, *, norm: bool = False) -> Taken:
        """Take one optimizer step on the next batch.

        Parameters
        ----------
        norm
            Whether to return the norm of the gradients although nothing depends on it.
        """
        state, scale = self.state, self.state.scale
        self.mesh.step = state.step
        by = 1.0 if scale is None else scale.value
        loss = loss_of_step(self.model, source(state.step, state.samples), self.settings, self.mesh, scale=by)
        length = gradient_norm(self.model, self.mesh) / by if norm or self.clip is not None or scale else None
        rate = self.rate.at(state.step)
        # The norm is the same on all ranks, and not finite if any gradient of any rank is not.
        finite = scale is None or length is None or bool(length.isfinite())
        if finite:
            factor = 1.0 if length is None or self.clip is None else clip_factor(length, self.clip)
            self.optimizer.step(rate, factor / by)
        else:
            self.optimizer.clear()
        self.state = replace(
            state,
            step=state.step + 1,
            samples=state.samples + self.settings.samples,
            skipped=state.skipped + (not finite),
            scale=scale and scale.after(finite),
        )
        self._scaled(state)
        return Taken(state.step, loss, rate, length)

    def _scaled(self, before: State) -> None:
        """Bring what compression keeps of gradients to the loss scale of now."""
        old, new = (1.0 if state.scale is None else state.scale.value for state in (before, self.state))
        if new != old:
            rescale(self.model, new / old)

    def save(self, *, last: bool) -> None:
        """Write a checkpoint if one is due after the step; `last` says whether the run ends here."""
        self.checkpoints.after(self.model, self.optimizer, self.mesh, self.state.kept(), last=last)


def training(
    model: nn.Module,
    settings: Settings,
    mesh: Mesh,
    *,
    steps: int,
    rate: float,
    seed: int,
    clip: float | None = None,
    checkpoints: Checkpoints | None = None,
) -> Iterator[torch.Tensor]:
    """Yield the loss of each optimizer step on synthetic data at a constant rate, from where a checkpoint leads to."""
    if isinstance(model, RunsInStages):
        model.spread()
    run = Training(
        model,
        settings,
        mesh,
        MasterAdamW(model, mesh),
        rate=Rate(rate, steps),
        state=State(seed),
        clip=clip,
        checkpoints=checkpoints,
    )
    source = synthetic(settings, seed)
    while run.state.step < steps:
        loss = run.step(source).loss
        run.save(last=run.state.step == steps)
        yield loss


def synthetic(settings: Settings, seed: int) -> Source:
    """Return the source of synthetic batches."""
    return lambda step, _: synthetic_batch(step, settings.inputs, seed=seed)
