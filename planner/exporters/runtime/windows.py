"""Windows over a sharded dim: rows for the neighbours, and windows within blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F

_CONVOLUTIONS = (F.conv1d, F.conv2d, F.conv3d)
_TRANSPOSED = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)
_MAX_POOLS = (F.max_pool1d, F.max_pool2d, F.max_pool3d)
_AVERAGE_POOLS = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)


def borders(x: torch.Tensor, *, blocks: int, dim: int, before: int, after: int) -> torch.Tensor:
    """Return of each block of `dim` its first `after` rows and its last `before` rows, block by block."""
    rows = x.unflatten(dim, (blocks, x.shape[dim] // blocks))
    last = rows.narrow(dim + 1, rows.shape[dim + 1] - before, before)
    return torch.cat((rows.narrow(dim + 1, 0, after), last), dim + 1).flatten(dim, dim + 1)


def extend(
    x: torch.Tensor,
    borders: torch.Tensor,
    *,
    first: int,
    blocks: int,
    dim: int,
    before: int,
    after: int,
    fill: float = 0.0,
) -> torch.Tensor:
    """Put the neighbours' rows around each block of `dim`, and `fill` at the edges of the whole.

    `borders` has `after` + `before` rows of every block of the whole; the blocks of x are `first …`.
    """
    count = borders.shape[dim] // (before + after)
    outside = torch.full_like(borders.narrow(dim, 0, before + after), fill)
    around = torch.cat((outside, borders, outside), dim).unflatten(dim, (count + 2, before + after))
    above = around.narrow(dim, first, blocks).narrow(dim + 1, after, before)
    below = around.narrow(dim, first + 2, blocks).narrow(dim + 1, 0, after)
    rows = x.unflatten(dim, (blocks, x.shape[dim] // blocks))
    return torch.cat((above, rows, below), dim + 1).flatten(dim, dim + 1)


def convolution(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    groups: int,
    blocks: tuple[int, ...] = (),
) -> torch.Tensor:
    """Convolve each block of space for itself; shards without samples or channels are taken, too."""

    def one(part: torch.Tensor) -> torch.Tensor:
        if part.numel() and weight.numel():
            return _CONVOLUTIONS[x.dim() - 3](part, weight, bias, stride, padding, dilation, groups)
        space = _windows(part.shape[2:], weight.shape[2:], stride, padding, dilation)
        return _nothing(part, weight, bias, weight.shape[0], space)

    return by_blocks(one, x, blocks)


def conv_transpose(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    output_padding: tuple[int, ...],
    groups: int,
    dilation: tuple[int, ...],
) -> torch.Tensor:
    """Convolve transposed; shards without samples or channels are taken, too."""
    if x.numel() and weight.numel():
        kind = _TRANSPOSED[x.dim() - 3]
        return kind(x, weight, bias, stride, padding, output_padding, groups, dilation)
    sizes = zip(x.shape[2:], weight.shape[2:], stride, padding, output_padding, dilation, strict=True)
    space = [(n - 1) * s - 2 * p + (k - 1) * d + 1 + e for n, k, s, p, e, d in sizes]
    return _nothing(x, weight, bias, weight.shape[1] * groups, space)


def max_pool(
    x: torch.Tensor,
    kernel: tuple[int, ...],
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    dilation: tuple[int, ...],
    blocks: tuple[int, ...] = (),
) -> torch.Tensor:
    """Take the largest entry of each window of each block."""

    def one(part: torch.Tensor) -> torch.Tensor:
        if part.numel():
            return _MAX_POOLS[x.dim() - 3](part, kernel, stride, padding, dilation)
        return _resized(part, _windows(part.shape[2:], kernel, stride, padding, dilation))

    return by_blocks(one, x, blocks)


def average_pool(
    x: torch.Tensor,
    kernel: tuple[int, ...],
    *,
    stride: tuple[int, ...],
    padding: tuple[int, ...],
    blocks: tuple[int, ...] = (),
) -> torch.Tensor:
    """Average each window of each block, padding included."""

    def one(part: torch.Tensor) -> torch.Tensor:
        if part.numel():
            return _AVERAGE_POOLS[x.dim() - 3](part, kernel, stride, padding)
        return _resized(part, _windows(part.shape[2:], kernel, stride, padding, (1,) * len(kernel)))

    return by_blocks(one, x, blocks)


def interpolate(x: torch.Tensor, *, size: tuple[int, ...], mode: str) -> torch.Tensor:
    """Interpolate to a size; a shard without samples, channels or rows is taken, too."""
    return F.interpolate(x, size, mode=mode) if x.numel() else _resized(x, size)


def average(x: torch.Tensor, *, rows: tuple[int, ...], counts: tuple[int, ...]) -> torch.Tensor:
    """Return this shard's share of the averages over windows that lie side by side, of `counts` rows in the whole.

    A window of 0 rows here stands for one window of all rows of the shard.
    """
    for dim, own in zip(range(2, 2 + 2 * len(rows), 2), rows, strict=True):
        x = x.unflatten(dim, (x.shape[dim] // own, own) if own else (1, x.shape[dim]))
    return x.sum(tuple(range(3, 3 + 2 * len(rows), 2))) / math.prod(counts)


def _windows(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> list[int]:
    """Return how many windows there are on each dim."""
    dims = zip(sizes, kernel, stride, padding, dilation, strict=True)
    return [(n + 2 * p - (k - 1) * d - 1) // s + 1 for n, k, s, p, d in dims]


def _resized(x: torch.Tensor, space: Sequence[int]) -> torch.Tensor:
    """Return zeros of another space, in the graph of autograd as if x had made them."""
    return (x.sum() * 0).expand(*x.shape[:2], *space)


def _nothing(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, channels: int, space: Sequence[int]
) -> torch.Tensor:
    """Return the sum of no products, of the result's shape, in the graph of autograd as the product would be.

    Backward asks for the weight once, as there: where it has to be gathered again, other ranks wait for this one.
    """
    zeros = x.sum() * 0 + weight[:0].square().sum()
    out = zeros.expand(x.shape[0], channels, *space)
    return out if bias is None else out + bias.view(-1, *[1] * len(space))


def by_blocks(one: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, blocks: tuple[int, ...]) -> torch.Tensor:
    """Apply a function to each block of the spatial dims, the last ones of x."""
    for dim, count in enumerate(blocks, start=2):
        if count > 1:
            rest = tuple(1 if i == dim - 2 else n for i, n in enumerate(blocks))
            return torch.cat([by_blocks(one, part, rest) for part in x.chunk(count, dim)], dim)
    return one(x)
