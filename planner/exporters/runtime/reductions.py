"""Parts of reductions whose reduced dims are sharded: what one shard adds to the whole."""

from __future__ import annotations

import math

import torch


def extremum(x: torch.Tensor, dims: tuple[int, ...], *, largest: bool, keepdim: bool = False) -> torch.Tensor:
    """Return the largest, or smallest, element over dims, without gradient; ∓∞ on a rank that has none."""
    x = x.detach()
    if any(x.shape[d] == 0 for d in dims):
        shape = [1 if d in dims else n for d, n in enumerate(x.shape)]
        x = x.new_full(shape, _bound(x.dtype, low=largest))
    return x.amax(dims, keepdim=keepdim) if largest else x.amin(dims, keepdim=keepdim)


def count_ties(x: torch.Tensor, top: torch.Tensor, dims: tuple[int, ...], *, keepdim: bool = False) -> torch.Tensor:
    """Return how many elements are equal to `top`, which has size 1 in `dims`."""
    return (x == top).sum(dims, keepdim=keepdim).to(x.dtype)


def share_ties(
    x: torch.Tensor, top: torch.Tensor, ties: torch.Tensor, dims: tuple[int, ...], *, keepdim: bool = False
) -> torch.Tensor:
    """Return Σ x / ties over the elements that are equal to `top`: summed over all shards, the extremum."""
    return (x.masked_fill(x != top, 0) / ties).sum(dims, keepdim=keepdim)


def variance(x: torch.Tensor, dims: tuple[int, ...], *, correction: int, keepdim: bool = False) -> torch.Tensor:
    """Return the variance over dims; on a rank that has nothing, nothing."""
    return x.var(dims, correction=correction, keepdim=keepdim) if x.numel() else x.sum(dims, keepdim=keepdim)


def squared_deviation(
    x: torch.Tensor, mean: torch.Tensor, dims: tuple[int, ...], *, divisor: int, keepdim: bool = False
) -> torch.Tensor:
    """Return Σ (x − mean)² / divisor over dims, in which `mean` has size 1."""
    return (x - mean).square().sum(dims, keepdim=keepdim) / divisor


def _bound(dtype: torch.dtype, *, low: bool) -> float:
    if dtype.is_floating_point:
        return -math.inf if low else math.inf
    info = torch.iinfo(dtype)
    return info.min if low else info.max
