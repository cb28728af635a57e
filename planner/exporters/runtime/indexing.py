"""Pieces of tensors by global index, where a rank holds or makes only a part of the dim.

Each function takes the global index of the first element that the rank holds (`first`), and gives zeros for elements
that it does not hold: summed over the ranks, the results are whole.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def window(x: torch.Tensor, dim: int, start: int, length: int, *, step: int = 1, first: int = 0) -> torch.Tensor:
    """Return the elements `start`, `start + step`, … of a dim of which x holds those from `first`; zeros elsewhere."""
    return take(x, dim, start + step * torch.arange(length, device=x.device), first=first)


def take(x: torch.Tensor, dim: int, index: torch.Tensor, *, first: int = 0) -> torch.Tensor:
    """Return the elements of a dim that a 1-d index names; zeros for those that x does not hold."""
    outside, rows, place = _held(x, dim, index, first)
    shape = [1] * x.dim()
    shape[dim] = -1
    return rows.index_select(dim, place).masked_fill(outside.view(shape), 0)


def fill_beyond(x: torch.Tensor, dim: int, start: int, size: int, value: float) -> torch.Tensor:
    """Return x with `value` where its index, from `start` on, lies outside a dim of `size`."""
    index = start + torch.arange(x.shape[dim], device=x.device)
    shape = [1] * x.dim()
    shape[dim] = -1
    return x.masked_fill(((index < 0) | (index >= size)).view(shape), value)


def _held(
    x: torch.Tensor, dim: int, index: torch.Tensor, first: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return which indices x does not hold, x with at least one element, and the places of the others in it."""
    place = index - first
    outside = (place < 0) | (place >= x.shape[dim])
    # A rank without elements picks one of padding, so that its gradient is there and empty.
    rows = x if x.shape[dim] else F.pad(x, (0, 0) * (x.dim() - 1 - dim) + (0, 1))
    return outside, rows, place.masked_fill(outside, 0)
