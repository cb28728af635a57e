"""Norms in two steps: what a shard knows of the mean, and the scaling by it when all is summed."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .widened import at_least_float32


def mean_square(x: torch.Tensor, *, width: int, dim: int = -1) -> torch.Tensor:
    """Return this shard's share of the mean of x² over a dim of global size `width`."""
    return at_least_float32(x).square().sum(dim) / width


def l2_scale(x: torch.Tensor, square: torch.Tensor, *, eps: float, dim: int = -1) -> torch.Tensor:
    """Divide by the root of the sum of squares, at least `eps`."""
    return (at_least_float32(x) / square.sqrt().clamp_min(eps).unsqueeze(dim)).to(x.dtype)


def rms_scale(
    x: torch.Tensor, mean_square: torch.Tensor, weight: torch.Tensor | None = None, *, eps: float
) -> torch.Tensor:
    """Divide by the root mean square and scale."""
    normal = (at_least_float32(x) * torch.rsqrt(mean_square + eps).unsqueeze(-1)).to(x.dtype)
    return normal if weight is None else normal * weight


def moments(x: torch.Tensor, *, dims: tuple[int, ...], count: int) -> torch.Tensor:
    """Return this shard's share of the means of x and of x² over `dims` of `count` elements in all, as a last dim."""
    x = at_least_float32(x)
    return torch.stack((x.sum(dims), x.square().sum(dims)), -1) / count


def normalize(x: torch.Tensor, moments: torch.Tensor, *, dims: tuple[int, ...], eps: float) -> torch.Tensor:
    """Subtract the mean and divide by the deviation, which `moments` has for all dims but `dims`."""
    mean, square = moments.unbind(-1)
    scale = torch.rsqrt((square - mean.square()).clamp_min(0) + eps)
    for dim in dims:
        mean, scale = mean.unsqueeze(dim), scale.unsqueeze(dim)
    return ((at_least_float32(x) - mean) * scale).to(x.dtype)


def batch_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, *, eps: float
) -> torch.Tensor:
    """Normalise each channel over batch and space, then scale and shift; a rank may have no channels."""
    if x.shape[1]:
        return F.batch_norm(x, None, None, weight, bias, training=True, eps=eps)
    # Nothing is left to compute; each operand still gets its gradient, which is empty.
    for affine in (weight, bias):
        if affine is not None:
            x = x * affine.view(1, 0, *(1 for _ in x.shape[2:]))
    return x
