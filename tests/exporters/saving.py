"""What ranks do in tests of checkpoints: fill all that a run holds with known numbers, save it, read it elsewhere."""

from __future__ import annotations

import importlib
import zlib
from pathlib import Path
from typing import Any

import torch

from tests.exporters.ranks import imported


def parallel(name: str) -> Any:
    """Return a runtime module of the bundle that was imported last."""
    return importlib.import_module(f"parallel.{name}")


def whole(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return the number that a tensor has everywhere: all its elements, told by its name."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def held(bundle: Path, dtype: torch.dtype) -> tuple[Any, Any, dict[str, Any], Any]:
    """Return model, optimizer, what they hold, and mesh."""
    train: Any = imported(bundle)
    mesh = parallel("mesh").Mesh(train.SETTINGS.mesh)
    mesh.compute = dtype
    model = train.MODEL(mesh).to(dtype)
    parallel("parameters").initialise(model, mesh, seed=0)
    optimizer = parallel("optimizer").MasterAdamW(model, mesh)
    return model, optimizer, parallel("holdings").holdings(model, optimizer), mesh


@torch.no_grad()
def write(rank: int, bundle: Path, folder: Path, steps: tuple[int, ...] = (5,), keep: int | None = None) -> None:
    """Save known numbers after each of some steps."""
    _, _, shards, mesh = held(bundle, torch.float64)
    for name, shard in shards.items():
        shard.local.copy_(parallel("layout").shard(whole(name, shard.shape), shard.layout, mesh))
    for step in steps:
        parallel("checkpoint").save(folder, step, shards, {"seed": 3}, mesh, keep=keep)


@torch.no_grad()
def read(rank: int, bundle: Path, checkpoint: Path, dtype: torch.dtype = torch.float64) -> tuple[dict[str, Any], int]:
    """Load a checkpoint and return its state and how many tensors were right on this rank; others raise."""
    model, optimizer, shards, mesh = held(bundle, dtype)
    for shard in shards.values():
        shard.local.fill_(torch.nan)
    state = parallel("checkpoint").load(checkpoint, shards, mesh)
    optimizer.publish()
    cut = parallel("layout").shard
    specs = parallel("parameters").specs_of(model)
    expected = {name: cut(whole(name, shard.shape), shard.layout, mesh) for name, shard in shards.items()}
    wrong = [n for n, s in shards.items() if not torch.equal(s.local, expected[n].to(s.local.dtype))]
    for name, parameter in model.named_parameters():
        shape, layout, _ = specs[name]
        rounded = whole(f"model.{name}", shape).to(shards[f"model.{name}"].local.dtype).to(dtype)
        wrong += [name] * (not torch.equal(parameter, cut(rounded, layout, mesh)))
    assert not wrong, wrong
    return state, len(shards)


def refused(rank: int, bundle: Path, checkpoint: Path) -> str:
    """Return the text of the error that loading raises."""
    _, _, shards, mesh = held(bundle, torch.float64)
    try:
        parallel("checkpoint").load(checkpoint, shards, mesh)
    except parallel("agreement").CheckpointError as problem:
        return str(problem)
    return ""


@torch.no_grad()
def start(rank: int, bundle: Path, path: Path) -> int:
    """Start with the known numbers of a file, and return how many parameters were right on this rank."""
    model, optimizer, shards, mesh = held(bundle, torch.float64)
    parallel("resume").Checkpoints(init=path).begin(model, optimizer, mesh, {})
    specs, cut = parallel("parameters").specs_of(model), parallel("layout").shard
    for name, parameter in model.named_parameters():
        shape, layout, _ = specs[name]
        full = whole(f"model.{name}", shape)
        assert torch.equal(parameter, cut(full, layout, mesh)), name
        value = shards[f"model.{name}"]
        assert torch.equal(value.local, cut(full, value.layout, mesh)), name
    return len(specs)
