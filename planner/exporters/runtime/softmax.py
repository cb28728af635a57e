"""Softmax in steps, so that the largest entry and the sum can be combined over ranks between them."""

from __future__ import annotations

import math

import torch

from .widened import at_least_float32


def row_max(x: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """Return the largest entry of each row, without gradient; −∞ where a rank's rows are empty."""
    if not x.shape[dim]:
        return at_least_float32(x.detach().sum(dim) - math.inf)
    return at_least_float32(x.detach().amax(dim))


def sum_exp(x: torch.Tensor, maximum: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """Return Σ exp(x − maximum) of each row."""
    return (at_least_float32(x) - maximum.unsqueeze(dim)).exp().sum(dim)


def softmax_scale(x: torch.Tensor, maximum: torch.Tensor, sum_exp: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """Return exp(x − maximum) / Σ exp of each row."""
    return ((at_least_float32(x) - maximum.unsqueeze(dim)).exp() / sum_exp.unsqueeze(dim)).to(x.dtype)


def log_softmax_shift(x: torch.Tensor, maximum: torch.Tensor, sum_exp: torch.Tensor, *, dim: int = -1) -> torch.Tensor:
    """Return x − maximum − log Σ exp of each row."""
    return (at_least_float32(x) - maximum.unsqueeze(dim) - sum_exp.log().unsqueeze(dim)).to(x.dtype)
