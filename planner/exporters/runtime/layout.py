"""Where a rank's shard of a tensor lies: layouts as printed in the plan, e.g. `[dp, tp·cp, -]`."""

from __future__ import annotations

import torch

from .mesh import Axes, Mesh

Box = tuple[tuple[int, int], ...]


def dims(layout: str) -> tuple[Axes, ...]:
    """Return, per tensor dim, the axes that shard it."""
    body = layout[layout.index("[") + 1 : layout.index("]")]
    return tuple(() if part.strip() == "-" else tuple(part.strip().split("·")) for part in body.split(",") if part)


def box(layout: str, shape: tuple[int, ...], mesh: Mesh, rank: int | None = None) -> Box:
    """Return the index range (start, stop) that a rank holds, per dim."""
    ranges = []
    for axes, size in zip(dims(layout), shape, strict=True):
        length = size // mesh.size(*axes)
        start = mesh.index(*axes, rank=rank) * length
        ranges.append((start, start + length))
    return tuple(ranges)


def local_shape(layout: str, shape: tuple[int, ...], mesh: Mesh) -> tuple[int, ...]:
    """Return the shape of every rank's shard."""
    return tuple(size // mesh.size(*axes) for axes, size in zip(dims(layout), shape, strict=True))


def shard(full: torch.Tensor, layout: str, mesh: Mesh) -> torch.Tensor:
    """Cut this rank's shard out of a whole tensor."""
    ranges = box(layout, tuple(full.shape), mesh)
    return full[tuple(slice(start, stop) for start, stop in ranges)].clone()
