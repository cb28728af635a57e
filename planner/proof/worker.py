"""What runs in a rank's process: import a bundle, run it, compare it with the unsharded model."""

from __future__ import annotations

import importlib
import sys
import traceback
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist

from .job import Job, RankResult
from .native import execute_native

TINY_SHARE = 1e-6
"""A gradient far smaller than all gradients together is compared on their scale times this."""


def serve(rank: int, world: int, store: str, timeout: float, pipe: Connection) -> None:
    """Take jobs from a pipe until it closes; answer each with a `RankResult` or the error's text."""
    torch.set_num_threads(1)
    # What the code makes in the model's own type.
    torch.set_default_dtype(torch.float64)
    if world > 1:
        dist.init_process_group(
            "gloo", init_method=f"file://{store}", rank=rank, world_size=world, timeout=timedelta(seconds=timeout)
        )
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            break
        try:
            pipe.send(run(job))
        except Exception as problem:
            pipe.send(f"{type(problem).__name__}: {problem}{_place(problem)}")


def _place(problem: Exception) -> str:
    """Return the line of the model that an error came up in, in brackets; empty if it was in none."""
    lines = [frame for frame in traceback.extract_tb(problem.__traceback__) if Path(frame.filename).name == "model.py"]
    return f" (model.py, line {lines[-1].lineno}: {lines[-1].line})" if lines else ""


def run(job: Job) -> RankResult:
    """Run one job in this process."""
    return execute(import_bundle(job.bundle), job)


def execute(train: ModuleType, job: Job) -> RankResult:
    """Run a job on a bundle's `train` module, whose runtime modules are imported as `parallel`."""
    # A native script spreads its model itself.
    if hasattr(train, "device_mesh"):
        return execute_native(train, job, partial(compared, _reference(job)))
    trainer, parameters = sys.modules["parallel.trainer"], sys.modules["parallel.parameters"]
    settings = replace(train.SETTINGS, summed=job.summed) if job.summed else train.SETTINGS
    mesh = sys.modules["parallel.mesh"].Mesh(settings.mesh)
    try:
        mesh.compute = torch.float64
        model = train.MODEL(mesh).double()
        parameters.initialise(model, mesh, seed=job.seed, std=0.1)
        _vary(model, mesh, job.seed)
        mesh.log = []
        if job.kind == "gradients":
            batch = sys.modules["parallel.data"].synthetic_batch(0, settings.inputs, seed=job.seed)
            losses = [trainer.loss_of_step(model, batch, settings, mesh)]
            own = sys.modules["parallel.gradients"].own_gradients(model)
            trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
            held = {name: own[name].total if name in own else p.grad for name, p in trained}
            # What nothing reads has none.
            tensors = {name: torch.zeros_like(p) if held[name] is None else held[name] for name, p in trained}
            layouts = {name: gradient.layout for name, gradient in own.items()}
        else:
            losses = list(trainer.training(model, settings, mesh, steps=job.steps, rate=1e-3, seed=job.seed))
            tensors, layouts = {name: p.detach() for name, p in model.named_parameters()}, {}
        stored = {name: spec[1] for name, spec in parameters.specs_of(model).items()}
        found = {"loss": torch.stack([loss.double() for loss in losses]), **tensors}
        if job.write_reference:
            # What the loss does not depend on has no gradient: zero, but for anyone who has one.
            zero = {name: torch.zeros_like(p) for name, p in model.named_parameters() if found.get(name, p) is None}
            torch.save(found | zero, job.reference)
            return RankResult(errors=(), collectives=())
        return RankResult(errors=_errors(found, job, stored | layouts, mesh), collectives=tuple(mesh.log or ()))
    finally:
        mesh.close()


@torch.no_grad()
def _vary(model: torch.nn.Module, mesh: Any, seed: int) -> None:
    """Move biases from 0 and norm weights from 1: equal numbers hide a shard that is doubled or in another's place."""
    shard = sys.modules["parallel.layout"].shard
    own = dict(model.named_parameters())
    for name, (shape, layout, kind) in sys.modules["parallel.parameters"].specs_of(model).items():
        if kind != "normal":
            generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}:{name}".encode()))
            own[name].add_(shard(0.1 * torch.randn(shape, generator=generator, dtype=torch.float64), layout, mesh))


def _errors(
    found: dict[str, torch.Tensor | None], job: Job, layouts: dict[str, str], mesh: Any
) -> tuple[tuple[str, float], ...]:
    """Return ‖g − g₀‖ / max(‖g₀‖, 1e-6·‖all g₀‖) of this rank's shards."""
    reference = _reference(job)
    shard = sys.modules["parallel.layout"].shard

    def cut(name: str) -> Callable[[torch.Tensor], torch.Tensor]:
        return lambda whole: whole if name == "loss" else shard(whole, layouts[name], mesh)

    return tuple(compared(reference, name, tensor, cut(name)) for name, tensor in found.items())


def _reference(job: Job) -> dict[str, torch.Tensor]:
    """Return what the unsharded run wrote."""
    found: dict[str, torch.Tensor] = torch.load(job.reference, weights_only=True, mmap=True)
    return found


def compared(
    reference: dict[str, torch.Tensor], name: str, tensor: torch.Tensor | None,
    cut: Callable[[torch.Tensor], torch.Tensor],
) -> tuple[str, float]:  # fmt: skip
    """Return the name with ‖g − g₀‖ / max(‖g₀‖, 1e-6·‖all g₀‖) of this rank's shard, which `cut` cuts out of g₀."""
    expected = reference[name]
    whole = torch.stack([g.norm() for other, g in reference.items() if other != "loss"]).norm()
    scale = max(expected.norm().item(), TINY_SHARE * whole.item() if name != "loss" else 0.0)
    missing = float("inf") if expected.any() else 0.0
    return name, missing if tensor is None else (tensor - cut(expected)).norm().item() / scale


def import_bundle(folder: Path) -> ModuleType:
    """Import a bundle's `train` module, in place of another bundle's."""
    own = {"model", "train", "parallel", "parallelize", "pipeline", "stages"}
    for name in [n for n in sys.modules if n in own or n.startswith("parallel.")]:
        del sys.modules[name]
    sys.path.insert(0, str(folder))
    try:
        importlib.invalidate_caches()
        train = importlib.import_module("train")
        importlib.import_module("parallel.data")
    finally:
        sys.path.remove(str(folder))
    return train
