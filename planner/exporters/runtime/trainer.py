"""Train a bundle's model: AdamW on local shards, losses printed by rank 0."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from .clip import clip_gradients
from .data import Batch, Feed, local_batch, microbatch, share, synthetic_batch
from .gradients import Exchange, finish_gradients
from .in_stages import RunsInStages
from .mesh import Mesh
from .optimizer import MasterAdamW
from .parameters import initialise
from .regather import regathering
from .resume import Checkpoints, add_options

Build = Callable[[Mesh], nn.Module]


@dataclass(frozen=True)
class Settings:
    """What the plan fixes about a run.

    Parameters
    ----------
    mesh
        Axis → size.
    samples
        Samples, such as sequences or images, of an optimizer step.
    microbatches
        Parts of a step that go through the model one after the other.
    inputs
        What the model's inputs are fed with, in their order.
    dtype
        Element type of parameters and computation.
    summed
        What the gradients of the loss, a mean, are multiplied by.
    gradients
        How they are put into buckets; None where each is reduced by itself.
    """

    mesh: dict[str, int]
    samples: int
    microbatches: int
    inputs: tuple[Feed, ...]
    dtype: str
    regather: bool = False
    summed: int = 1
    gradients: Exchange | None = None


def loss_of_step(model: nn.Module, batch: Batch, settings: Settings, mesh: Mesh) -> torch.Tensor:
    """Run forward and backward of one step on a global batch; gradients are left in the parameters.

    The loss is the mean of those of the microbatches. Where labels may be ignored, each microbatch counts by its share
    of those that are not, which makes it the mean over all valid targets of the step.
    """
    if settings.gradients is not None:
        settings.gradients.open(model, mesh)
    if isinstance(model, RunsInStages):
        return model.loss_of_step(batch, settings)
    total = torch.zeros((), device=mesh.device)
    count = settings.microbatches
    compute = next((p.dtype for p in model.parameters()), torch.float64)
    for index in range(count):
        mesh.sequence, mesh.last = index * (settings.samples // count), index == count - 1
        part = microbatch(batch, settings.inputs, index, count)
        counts_for = share(batch, part, settings.inputs, count)
        with regathering() if settings.regather else nullcontext():
            loss = model(*local_batch(part, settings.inputs, mesh, compute)) * counts_for
        (loss * settings.summed if settings.summed > 1 else loss).backward()
        total = total + loss.detach()
    finish_gradients(model, mesh)
    return total


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
    """Yield the loss of each optimizer step on synthetic data, from the step that a checkpoint leads to.

    Parameters
    ----------
    clip
        Largest norm of all gradients together; longer ones are scaled down.
    checkpoints
        What to go on from, and what to save.
    """
    if isinstance(model, RunsInStages):
        model.spread()
    optimizer = MasterAdamW(model, mesh, rate=rate)
    kept = checkpoints or Checkpoints()
    begin = kept.begin(model, optimizer, mesh, {"seed": seed})
    for step in range(begin["step"], steps):
        batch = synthetic_batch(step, settings.inputs, seed=seed)
        mesh.step = step
        loss = loss_of_step(model, batch, settings, mesh)
        if clip is not None:
            clip_gradients(model, mesh, clip)
        optimizer.step()
        kept.after(model, optimizer, mesh, {"step": step + 1, "seed": seed}, last=step + 1 == steps)
        yield loss


def start(settings: Settings) -> Mesh:
    """Join the process group that torchrun describes and return the mesh."""
    gpu = torch.cuda.is_available()
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if gpu:
        torch.cuda.set_device(local_rank)
    if "RANK" in os.environ:
        dist.init_process_group("nccl" if gpu else "gloo")
    return Mesh(settings.mesh, f"cuda:{local_rank}" if gpu else "cpu")


def main(build: Build, settings: Settings) -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description="Train the model on synthetic data.")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--clip", type=float, default=None, help="largest norm of the gradients")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dtype", default=settings.dtype, choices=["float64", "float32", "bfloat16"])
    add_options(parser)
    arguments = parser.parse_args()
    checkpoints = Checkpoints.of(arguments, parser)
    # Tensors that the model makes itself, in its own type.
    torch.set_default_dtype(getattr(torch, arguments.dtype))
    mesh = start(settings)
    try:
        mesh.compute = getattr(torch, arguments.dtype)
        model = build(mesh).to(mesh.compute)
        initialise(model, mesh, seed=arguments.seed)
        losses = training(
            model,
            settings,
            mesh,
            steps=arguments.steps,
            rate=arguments.lr,
            seed=arguments.seed,
            clip=arguments.clip,
            checkpoints=checkpoints,
        )
        for loss in losses:
            if mesh.rank == 0:
                print(f"step {mesh.step} loss {loss.item():.12g}", flush=True)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
