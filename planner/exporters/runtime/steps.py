"""The steps of a redistribution, each a small value that can be called on a tensor.

`dim` is a tensor dim, `axes` are mesh axes, the first one major. A step takes and gives this rank's shard.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist

from .mesh import Axes, Mesh

# torch 2.13 renamed these two; older releases know the names on the right only.
_gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
_scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


@dataclass(frozen=True)
class AllGather:
    """Join the shards of `dim` over `axes`."""

    dim: int
    axes: Axes

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return the tensor with `dim` joined."""
        n = mesh.size(*self.axes)
        out = x.new_empty((n, *x.shape))
        _gather(out.view(n * x.shape[0], *x.shape[1:]) if x.dim() else out, x.contiguous(), group=mesh.group(self.axes))
        out = _joined(_by_position(out, mesh, self.axes), self.dim)
        return _logged(mesh, "all_gather", self.axes, x, out)


@dataclass(frozen=True)
class ReduceScatter:
    """Add the partial results over `axes` and keep this rank's part of `dim`."""

    dim: int
    axes: Axes

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's part of the sum."""
        parts = _by_place(_cut(x, self.dim, mesh.size(*self.axes)), mesh, self.axes)
        out = x.new_empty(parts.shape[1:])
        flat = parts.view(parts.shape[0] * parts.shape[1], *parts.shape[2:])
        _scatter(out, flat, group=mesh.group(self.axes))
        return _logged(mesh, "reduce_scatter", self.axes, x, out)


@dataclass(frozen=True)
class AllReduce:
    """Reduce the partial results over `axes` on every rank."""

    axes: Axes
    op: str = "sum"

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return the whole result."""
        out = x.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(out, op=getattr(dist.ReduceOp, self.op.upper()), group=mesh.group(self.axes))
        return _logged(mesh, "all_reduce", self.axes, x, out)


@dataclass(frozen=True)
class AllToAll:
    """Join the shards of `dim` over `axes` and cut `to_dim` instead."""

    dim: int
    to_dim: int
    axes: Axes

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return the tensor sharded on the other dim."""
        parts = _by_place(_cut(x, self.to_dim, mesh.size(*self.axes)), mesh, self.axes)
        out = torch.empty_like(parts)
        dist.all_to_all_single(out, parts, group=mesh.group(self.axes))
        out = _joined(_by_position(out, mesh, self.axes), self.dim)
        return _logged(mesh, "all_to_all", self.axes, x, out)


@dataclass(frozen=True)
class Slice:
    """Keep this rank's part of `dim`; no communication."""

    dim: int
    axes: Axes

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's part."""
        size = x.shape[self.dim] // mesh.size(*self.axes)
        return x.narrow(self.dim, mesh.index(*self.axes) * size, size).contiguous()


@dataclass(frozen=True)
class Zero:
    """Make a replicated tensor a partial sum: rank 0 along `axes` keeps it, the others hold zeros."""

    axes: Axes

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's summand."""
        return x if mesh.index(*self.axes) == 0 else torch.zeros_like(x)


@dataclass(frozen=True)
class Pad:
    """Make a shard of `dim` a partial sum: put it in its place in a tensor of zeros."""

    dim: int
    axes: Axes

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's summand."""
        size = x.shape[self.dim]
        shape = list(x.shape)
        shape[self.dim] = size * mesh.size(*self.axes)
        out = x.new_zeros(shape)
        out.narrow(self.dim, mesh.index(*self.axes) * size, size).copy_(x)
        return out


def _cut(x: torch.Tensor, dim: int, n: int) -> torch.Tensor:
    """Return `n` equal parts of `dim`, stacked in front."""
    return x.unflatten(dim, (n, x.shape[dim] // n)).movedim(dim, 0)


def _joined(parts: torch.Tensor, dim: int) -> torch.Tensor:
    """Undo `_cut`."""
    return parts.movedim(0, dim).flatten(dim, dim + 1).contiguous()


def _by_position(parts: torch.Tensor, mesh: Mesh, axes: Axes) -> torch.Tensor:
    """Reorder parts from places in the process group to positions along the axes."""
    order = mesh.order(axes)
    return parts if order is None else parts[order]


def _by_place(parts: torch.Tensor, mesh: Mesh, axes: Axes) -> torch.Tensor:
    """Undo `_by_position`, and lay the parts out one after the other."""
    order = mesh.order(axes)
    if order is not None:
        parts = parts[[order.index(place) for place in range(len(order))]]
    return parts.contiguous()


def _logged(mesh: Mesh, kind: str, axes: Axes, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    if mesh.log is not None:
        mesh.log.append((kind, axes, x.numel(), out.numel()))
    return out
