"""Parts of operators that look at a dim in order, where the dim is cut into blocks of one size.

`dim` counts from the front; a rank holds `blocks` whole blocks of it.
"""

from __future__ import annotations

import torch


def top_of_blocks(
    x: torch.Tensor, dim: int, *, blocks: int, k: int, largest: bool, first: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest, or smallest, elements of each block, and their indices in the whole dim.

    `first` is the index of the first element that the rank holds.
    """
    values, indices = _cut(x, dim, blocks).topk(k, dim=dim + 1, largest=largest)
    shape = [1] * indices.dim()
    shape[dim] = blocks
    length = x.shape[dim] // max(blocks, 1)
    begin = first + length * torch.arange(blocks, device=x.device)
    return values.flatten(dim, dim + 1), (indices + begin.view(shape)).flatten(dim, dim + 1)


def merge_top(
    values: torch.Tensor, indices: torch.Tensor, dim: int, *, k: int, largest: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the k largest, or smallest, candidates, and their indices."""
    best, place = values.topk(k, dim=dim, largest=largest)
    return best, indices.gather(dim, place)


def merge_arg(values: torch.Tensor, indices: torch.Tensor, dim: int, *, largest: bool) -> torch.Tensor:
    """Return the index of the largest, or smallest, candidate; the first of several."""
    best = values.amax(dim, keepdim=True) if largest else values.amin(dim, keepdim=True)
    return indices.masked_fill(values != best, torch.iinfo(indices.dtype).max).amin(dim)


def block_cumsum(x: torch.Tensor, dim: int, *, blocks: int) -> torch.Tensor:
    """Return running sums within each block."""
    return _cut(x, dim, blocks).cumsum(dim + 1).flatten(dim, dim + 1)


def block_sum(x: torch.Tensor, dim: int, *, blocks: int) -> torch.Tensor:
    """Return the sum of each block."""
    return _cut(x, dim, blocks).sum(dim + 1)


def block_prod(x: torch.Tensor, dim: int, *, blocks: int) -> torch.Tensor:
    """Return the product of each block."""
    return _cut(x, dim, blocks).prod(dim + 1)


def block_add(x: torch.Tensor, offset: torch.Tensor, dim: int, *, blocks: int) -> torch.Tensor:
    """Return each block plus its offset."""
    return (_cut(x, dim, blocks) + offset.unsqueeze(dim + 1)).flatten(dim, dim + 1)


def prefix_sum(totals: torch.Tensor, dim: int, *, first: int, length: int, held: int = 0) -> torch.Tensor:
    """Return, for `length` blocks from `first` on, the sum of the totals, from block `held` on, before each."""
    blocks = first + torch.arange(length, device=totals.device)
    counted = held + torch.arange(totals.shape[dim], device=totals.device) < blocks.unsqueeze(-1)
    return torch.matmul(totals.movedim(dim, -1), counted.to(totals.dtype).t()).movedim(-1, dim)


def _cut(x: torch.Tensor, dim: int, blocks: int) -> torch.Tensor:
    return x.unflatten(dim, (blocks, x.shape[dim] // max(blocks, 1)))
