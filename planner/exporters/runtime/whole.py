"""Weights of the unsharded model, of which each rank takes its part."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch

from .agreement import CheckpointError, together
from .folders import METADATA
from .holdings import VALUE
from .layout import part
from .mesh import Mesh
from .safetensors import read_safetensors
from .shards import Shard, Shards


def fill(path: Path, shards: Shards, mesh: Mesh) -> None:
    """Fill the values of a model from a file, a folder of files, or a checkpoint; all ranks must call.

    Parameters
    ----------
    path
        `.safetensors`, or a state dict that `torch.save` wrote; a folder of several of the former; or a checkpoint, of
        which only values are read.
    shards
        `model.NAME` → value. Names are those of the original model. What else is in the file is left out.

    Raises
    ------
    CheckpointError
        On every rank, when a file can't be read, or a parameter is missing or of another shape.
    """
    if (path / METADATA).is_file():
        from .checkpoint import load

        load(path, shards, mesh, all_of_it=False)
    else:
        together(lambda: _fill(path, shards, mesh))


@torch.no_grad()
def _fill(path: Path, shards: Shards, mesh: Mesh) -> None:
    try:
        tensors = _read(path)
    except (OSError, ValueError) as problem:
        raise CheckpointError(str(problem)) from problem
    named = {key.removeprefix(VALUE): shard for key, shard in shards.items()}
    missing = sorted(named.keys() - tensors.keys())
    if missing:
        raise CheckpointError(
            f"{path} has {len(named) - len(missing)} of the model's {len(named)} parameters; {missing[0]} is missing, "
            f"and it has {', '.join(sorted(tensors.keys() - named.keys())[:3]) or 'nothing else'}"
        )
    for name, shard in named.items():
        shard.local.copy_(part(_reshaped(path, name, tensors[name], shard), shard.box(mesh)))


def _reshaped(path: Path, name: str, tensor: torch.Tensor, shard: Shard) -> torch.Tensor:
    """Return a tensor in the shape that the model's code gives it, which may only cut dims or join them."""
    found = tuple(tensor.shape)
    if found != shard.shape and not (_joins(found, shard.shape) or _joins(shard.shape, found)):
        raise CheckpointError(f"{path}: {name} has the shape {found}, and {shard.shape} here")
    return tensor.reshape(shard.shape)


def _joins(fine: tuple[int, ...], coarse: tuple[int, ...]) -> bool:
    """Return whether joining neighbouring dims of one shape gives the other."""
    left = list(fine)
    for size in coarse:
        joined = left.pop(0) if left else 1
        while joined < size and left:
            joined *= left.pop(0)
        if joined != size:
            return False
    return all(size == 1 for size in left)


def _read(path: Path) -> dict[str, torch.Tensor]:
    if path.is_dir():
        files = sorted(path.glob("*.safetensors"))
        if not files:
            raise ValueError(f"{path} is no checkpoint and has no .safetensors")
        return {name: tensor for file in files for name, tensor in read_safetensors(file).items()}
    if path.suffix == ".safetensors":
        return read_safetensors(path)
    try:
        # Never anything but tensors; mapped where the format allows it.
        found: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except OSError:
        raise
    except Exception as problem:
        # A damaged file raises anything.
        raise ValueError(f"{path} can't be read as a state dict: {str(problem).splitlines()[0]}") from problem
    if not isinstance(found, dict) or not all(isinstance(tensor, torch.Tensor) for tensor in found.values()):
        raise ValueError(f"{path} is no state dict: it must hold tensors by name, and nothing else")
    return found
