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


def gather(x: torch.Tensor, dim: int, index: torch.Tensor, *, first: int) -> torch.Tensor:
    """Return the elements of each row that an index of all dims names; zeros for those that x does not hold."""
    outside, rows, place = _held(x, dim, index, first)
    return rows.gather(dim, place).masked_fill(outside, 0)


def index_add(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, first: int) -> torch.Tensor:
    """Return x plus the slices whose place in the dim it holds."""
    outside, rows, place = _held(x, dim, index, first)
    shape = [1] * x.dim()
    shape[dim] = -1
    added = rows.index_add(dim, place, source.masked_fill(outside.view(shape), 0))
    return added.narrow(dim, 0, x.shape[dim])


def scatter_add(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, first: int) -> torch.Tensor:
    """Return x plus the elements whose place it holds."""
    outside, rows, place = _held(x, dim, index, first)
    return rows.scatter_add(dim, place, source.masked_fill(outside, 0)).narrow(dim, 0, x.shape[dim])


def scatter(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, first: int) -> torch.Tensor:
    """Return x with the elements written over it whose place it holds."""
    outside, _, place = _held(x, dim, index, first)
    # What lies elsewhere is written into a place of its own behind, which is cut off.
    rows = F.pad(x, (0, 0) * (x.dim() - 1 - dim) + (0, 1))
    written = rows.scatter(dim, place.masked_fill(outside, x.shape[dim]), source)
    return written.narrow(dim, 0, x.shape[dim])


def one_hot(tokens: torch.Tensor, *, classes: int, first: int) -> torch.Tensor:
    """Return the columns from `first` on of what has 1 at the place that each index names, and 0 elsewhere."""
    return (tokens.unsqueeze(-1) - first == torch.arange(classes, device=tokens.device)).long()
