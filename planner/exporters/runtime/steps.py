"""The steps of a redistribution, each a small value that can be called on a tensor.

`dim` is a tensor dim, `axes` are mesh axes, the first one major. A step takes and gives this rank's shard. Parts that
communicate here are equal; for unequal ones see `uneven` and `exchange`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist

from .mesh import Axes, Mesh
from .names import all_gather_single as _gather
from .names import reduce_scatter_single as _scatter

Part = tuple[int, Axes]
"""A tensor dim, and mesh axes on it."""

_REDUCE = {
    "sum": dist.ReduceOp.SUM,
    "mean": dist.ReduceOp.SUM,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
}


@dataclass(frozen=True)
class AllGather:
    """Join the shards of `dim` over `axes`, and of further dims over theirs.

    Parameters
    ----------
    more
        Further (dim, axes), in ascending order.
    """

    dim: int
    axes: Axes
    more: tuple[Part, ...] = ()

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return the tensor with the dims joined."""
        parts = ((self.dim, self.axes), *self.more)
        axes = tuple(axis for _, along in parts for axis in along)
        n = mesh.size(*axes)
        out = x.new_empty((n, *x.shape))
        _gather(out.view(n * x.shape[0], *x.shape[1:]) if x.dim() else out, x.contiguous(), group=mesh.group(axes))
        out = _by_position(out, mesh, axes)
        out = out.unflatten(0, [mesh.size(*along) for _, along in parts])
        for major in reversed(range(len(parts))):
            dim = major + parts[major][0]
            out = out.movedim(major, dim).flatten(dim, dim + 1)
        return logged(mesh, "all_gather", axes, x, out.contiguous())


@dataclass(frozen=True)
class ReduceScatter:
    """Reduce the partial results over `axes` and keep this rank's part of `dim`; likewise over axes of further dims.

    Parameters
    ----------
    more
        Further (dim, axes), in ascending order.
    op
        `sum`, `mean`, `max` or `min`.
    dtype
        Element type in which narrower summands are passed and added, so that the sum is rounded once.
    """

    dim: int
    axes: Axes
    more: tuple[Part, ...] = ()
    op: str = "sum"
    dtype: str = ""

    @property
    def group(self) -> Axes:
        """The axes of all dims."""
        return tuple(axis for _, along in ((self.dim, self.axes), *self.more) for axis in along)

    def parts(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return what goes to each rank of the group, stacked in front by their places in it."""
        cut = x
        for major, (dim, along) in enumerate(((self.dim, self.axes), *self.more)):
            n = mesh.size(*along)
            cut = cut.unflatten(major + dim, (n, cut.shape[major + dim] // n)).movedim(major + dim, major)
        return _by_place(cut.flatten(0, len(self.more)), mesh, self.group)

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's part of the result."""
        parts = self.parts(x, mesh).to(_wide(x, self.dtype))
        out = parts.new_empty(parts.shape[1:])
        flat = parts.view(parts.shape[0] * parts.shape[1], *parts.shape[2:])
        _scatter(out, flat, op=_REDUCE[self.op], group=mesh.group(self.group))
        out = mean_of(out, len(parts)) if self.op == "mean" else out
        return logged(mesh, "reduce_scatter", self.group, parts, out).to(x.dtype)


@dataclass(frozen=True)
class AllReduce:
    """Reduce the partial results over `axes` on every rank; `op` and `dtype` are as for `ReduceScatter`."""

    axes: Axes
    op: str = "sum"
    dtype: str = ""

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return the whole result."""
        out = x.to(_wide(x, self.dtype), copy=True, memory_format=torch.contiguous_format)
        dist.all_reduce(out, op=_REDUCE[self.op], group=mesh.group(self.axes))
        out = mean_of(out, mesh.size(*self.axes)) if self.op == "mean" else out
        return logged(mesh, "all_reduce", self.axes, out, out).to(x.dtype)


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
        return logged(mesh, "all_to_all", self.axes, x, out)


@dataclass(frozen=True)
class Slice:
    """Keep this rank's part of `dim`; no communication. Parts may be unequal.

    It is a copy: a view would keep the whole tensor alive, and be one with what others made of the same tensor.
    """

    dim: int
    axes: Axes

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's part."""
        start, stop = mesh.chunk(x.shape[self.dim], *self.axes)
        return x.narrow(self.dim, start, stop - start).clone(memory_format=torch.contiguous_format)


@dataclass(frozen=True)
class Zero:
    """Make a replicated tensor a partial sum: rank 0 along `axes` keeps it, the others hold zeros."""

    axes: Axes

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's summand: a tensor of its own on every rank.

        Were it the operand itself on one rank, that one alone would fetch again what was let go.
        """
        return x.clone() if mesh.index(*self.axes) == 0 else torch.zeros_like(x)


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


def scatter_sum(parts: torch.Tensor, group: dist.ProcessGroup) -> tuple[torch.Tensor, dist.Work]:
    """Start to add up what every rank has for this one, its row of `parts`; it is there when the work is done."""
    out = parts.new_empty(parts.shape[1:])
    return out, _scatter(out, parts.flatten(0, 1), group=group, async_op=True)


def gather_rows(x: torch.Tensor, ranks: int, group: dist.ProcessGroup) -> tuple[torch.Tensor, dist.Work]:
    """Start to get the flat `x` of every rank as a row; they are there when the work is done."""
    out = x.new_empty((ranks, len(x)))
    return out, _gather(out.view(-1), x, group=group, async_op=True)


def _wide(x: torch.Tensor, dtype: str) -> torch.dtype:
    """Return the type in which a tensor is added: its own, unless a wider one is asked for."""
    return torch.promote_types(x.dtype, getattr(torch, dtype)) if dtype else x.dtype


def mean_of(total: torch.Tensor, count: int) -> torch.Tensor:
    """Turn a sum into its mean, in its element type; gloo has no reduction of this name."""
    return total.div_(count) if total.is_floating_point() else total.div_(count, rounding_mode="floor")


def logged(mesh: Mesh, kind: str, axes: Axes, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """Return what a communication gives, after noting it in the mesh's log if there is one."""
    if mesh.log is not None:
        mesh.log.append((kind, axes, x.numel() * x.element_size(), out.numel() * out.element_size()))
    return out
