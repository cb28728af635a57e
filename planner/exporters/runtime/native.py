"""Train a model that parallelize.py spread over ranks: batches, one optimizer step, checkpoints, and the command line.

Every parameter is a DTensor. A rank computes the sum of the losses of its own samples, divided by the number of targets
of the whole step: so the gradients of all ranks add up to that of the mean over all targets, however unequal their
shares are, and nothing is averaged.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Protocol, TypeVar, runtime_checkable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor.parallel import loss_parallel

from .data import Batch, Feed, microbatch, synthetic_batch
from .native_checkpoint import load, save

M = TypeVar("M", bound=nn.Module)
Build = Callable[[], M]
Spread = Callable[[M, DeviceMesh], nn.Module]


@runtime_checkable
class InStages(Protocol):
    """A model of which a rank holds some stages, and which runs a step by a schedule."""

    def loss_of_step(self, batch: Batch, settings: Settings) -> torch.Tensor:
        """Do what `loss_of_step` does."""

    def own_parameters(self) -> list[nn.Parameter]:
        """Return this rank's parameters, those that several stages hold on the first of them alone."""

    def norm_of_all(self, norm: torch.Tensor) -> torch.Tensor:
        """Return the norm over all stages from that of this rank's."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the plan fixes about a run.

    Parameters
    ----------
    data
        Mesh dims over which the samples are cut.
    samples, microbatches
        Samples of an optimizer step, and the parts of it that go through the model one after the other.
    labels, ignored
        The input that holds the targets, and the value in it that stands for none.
    inputs
        What the model's inputs are fed with, in their order.
    dtype
        Element type of the parameters that the optimizer updates.
    sync_each
        Whether gradients are reduced after every microbatch; else once a step.
    vocab_sharded
        Whether the loss reads logits that are shards of the vocabulary.
    ones, zeros
        Patterns of the names of parameters that start with these; the others start with normal numbers.
    """

    data: tuple[str, ...]
    samples: int
    microbatches: int
    labels: str
    ignored: int
    inputs: tuple[Feed, ...]
    dtype: str
    sync_each: bool
    vocab_sharded: bool
    ones: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()


def built(build: Build[M], spread: Spread[M], mesh: DeviceMesh, dtype: torch.dtype) -> nn.Module:
    """Return the model on this rank's device, spread over the mesh before any memory is given to it."""
    with torch.device("meta"):
        model = build().to(dtype)
    return spread(model, mesh).to_empty(device=mesh.device_type)


@torch.no_grad()
def initialise(model: nn.Module, settings: Settings, *, seed: int, std: float = 0.02) -> None:
    """Fill every parameter from a generator seeded by its name: the same values on any mesh."""
    for name, parameter in model.named_parameters():
        if any(fnmatch(name, pattern) for pattern in settings.ones):
            full = torch.ones(parameter.shape)
        elif any(fnmatch(name, pattern) for pattern in settings.zeros):
            full = torch.zeros(parameter.shape)
        else:
            digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
            full = torch.randn(parameter.shape, generator=generator, dtype=torch.float32) * std
        fill(parameter, full)


@torch.no_grad()
def fill(parameter: nn.Parameter, full: torch.Tensor) -> None:
    """Copy this rank's shard of a whole tensor, which all ranks have, into a parameter."""
    assert isinstance(parameter, DTensor)
    local = parameter.to_local()
    whole = full.to(local.device, local.dtype)
    cut = distribute_tensor(whole, parameter.device_mesh, parameter.placements, src_data_rank=None)
    local.copy_(cut.to_local())


def local_batch(part: Batch, settings: Settings, mesh: DeviceMesh) -> tuple[torch.Tensor, ...]:
    """Return this rank's samples of a microbatch; an input without samples comes whole."""
    index, count = 0, 1
    for dim in settings.data:
        index, count = index * mesh[dim].size() + mesh.get_local_rank(dim), count * mesh[dim].size()
    return tuple(
        (x if feed.samples is None else x.tensor_split(count, feed.samples)[index]).to(mesh.device_type)
        for x, feed in zip(part, settings.inputs, strict=True)
    )


def summed(value: torch.Tensor, settings: Settings, mesh: DeviceMesh) -> torch.Tensor:
    """Return the sum of a number over all ranks that have other samples."""
    for dim in settings.data:
        dist.all_reduce(value, group=mesh.get_group(dim))
    return value


def shares(batch: Batch, settings: Settings, mesh: DeviceMesh) -> tuple[list[tuple[torch.Tensor, ...]], torch.Tensor]:
    """Return this rank's samples of each microbatch, and the number of targets of the step on all ranks."""
    count = settings.microbatches
    parts = [local_batch(microbatch(batch, settings.inputs, index, count), settings, mesh) for index in range(count)]
    place = [feed.name for feed in settings.inputs].index(settings.labels)
    targets = sum(((part[place] != settings.ignored).sum() for part in parts), torch.zeros((), dtype=torch.int64))
    return parts, summed(targets.to(mesh.device_type), settings, mesh).clamp(min=1)


def loss_of_step(model: nn.Module, batch: Batch, settings: Settings, mesh: DeviceMesh) -> torch.Tensor:
    """Run forward and backward of one step on a global batch; gradients are left in the parameters."""
    if isinstance(model, InStages):
        return model.loss_of_step(batch, settings)
    parts, targets = shares(batch, settings, mesh)
    total = torch.zeros((), device=mesh.device_type)
    for index, part in enumerate(parts):
        if isinstance(model, FSDPModule):
            model.set_requires_gradient_sync(settings.sync_each or index == len(parts) - 1)
        # The backward of a loss over shards of the vocabulary belongs in the block, too.
        with loss_parallel() if settings.vocab_sharded else nullcontext():
            loss = model(*part) / targets
            loss.backward()
        total = total + (loss.to_local() if isinstance(loss, DTensor) else loss).detach()
    return summed(total, settings, mesh)


def by_mesh(parameters: Iterable[nn.Parameter]) -> list[list[nn.Parameter]]:
    """Return parameters in groups of one mesh: torch works on a list of DTensors of one mesh only."""
    groups: dict[DeviceMesh, list[nn.Parameter]] = {}
    for parameter in parameters:
        assert isinstance(parameter, DTensor)
        groups.setdefault(parameter.device_mesh, []).append(parameter)
    return list(groups.values())


@torch.no_grad()
def clip_gradients(model: nn.Module, bound: float) -> torch.Tensor:
    """Scale all gradients so that their norm is at most `bound`, and return the norm that they had."""
    staged = model if isinstance(model, InStages) else None
    norms = [torch.zeros(())] if staged else []
    for group in by_mesh(staged.own_parameters() if staged else model.parameters()):
        norm = nn.utils.get_total_norm([p.grad for p in group if p.grad is not None])
        norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    total = torch.stack(norms).norm()
    total = staged.norm_of_all(total) if staged else total
    for group in by_mesh(model.parameters()):
        nn.utils.clip_grads_with_norm_(group, bound, total)
    return total


def adamw(model: nn.Module, rate: float) -> torch.optim.AdamW:
    """Return the optimizer; its state is sharded like the parameters."""
    groups = [{"params": group} for group in by_mesh(model.parameters())]
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.95), weight_decay=0.1)


def training(
    model: nn.Module, optimizer: torch.optim.Optimizer, settings: Settings, mesh: DeviceMesh, *, steps: int,
    seed: int, first: int = 0, clip: float | None = None,
) -> Iterator[torch.Tensor]:  # fmt: skip
    """Yield the loss of each optimizer step, from step `first` on, on synthetic data."""
    for step in range(first, steps):
        loss = loss_of_step(model, synthetic_batch(step, settings.inputs, seed=seed), settings, mesh)
        if clip is not None:
            clip_gradients(model, clip)
        optimizer.step()
        optimizer.zero_grad()
        yield loss


def main(build: Build[M], spread: Spread[M], make_mesh: Callable[[str], DeviceMesh], settings: Settings) -> None:
    """Parse the command line and train."""
    parser = argparse.ArgumentParser(description="Train the model on synthetic data.")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--lr", type=float, default=3e-4)
    parser.add_argument("--clip", type=float, default=None, help="largest norm of the gradients")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--checkpoint", default="", help="folder to go on from, if it is there, and to write at the end"
    )
    arguments = parser.parse_args()
    gpu = torch.cuda.is_available()
    if gpu:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if gpu else "gloo")
    try:
        mesh = make_mesh("cuda" if gpu else "cpu")
        model = built(build, spread, mesh, getattr(torch, settings.dtype))
        initialise(model, settings, seed=arguments.seed)
        optimizer = adamw(model, arguments.lr)
        first = load(arguments.checkpoint, model, optimizer) if os.path.isdir(arguments.checkpoint) else 0
        losses = training(
            model, optimizer, settings, mesh, steps=arguments.steps, seed=arguments.seed, first=first,
            clip=arguments.clip,
        )  # fmt: skip
        for step, loss in enumerate(losses, start=first):
            if dist.get_rank() == 0:
                print(f"step {step} loss {loss.item():.12g}", flush=True)
        if arguments.checkpoint:
            save(arguments.checkpoint, model, optimizer, arguments.steps)
    finally:
        dist.destroy_process_group()
