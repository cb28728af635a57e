"""Rotary position embedding: a table of angles for the positions of a shard, and the turn by it."""

from __future__ import annotations

import math

import torch


def rotary_table(
    length: int,
    head_dim: int,
    theta: float | tuple[float, ...],
    *,
    first: int,
    device: torch.device,
    scaling: tuple[float, float, float, int] | None = None,
    form: str = "halves",
    scale: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines, [length, head_dim] in fp32, of positions `first …`, times `scale`.

    `theta` is the base of the frequencies, or the frequencies themselves. `scaling` is (factor, low frequency factor,
    high frequency factor, original length) of Llama 3.1's long-context rule (Llama 3 report, 2024): long waves are
    slowed by the factor, short ones stay, the middle is interpolated. In `form` "halves" all frequencies stand twice,
    one after the other, in "neighbours" each beside itself.
    """
    if isinstance(theta, tuple):
        frequencies = torch.tensor(theta, device=device, dtype=torch.float32)
    else:
        exponents = torch.arange(0, head_dim, 2, device=device, dtype=torch.int64).float() / head_dim
        frequencies = 1.0 / (theta**exponents)
    if scaling is not None:
        factor, low, high, original = scaling
        turns = original * frequencies / (2 * math.pi)
        share = ((turns - low) / (high - low)).clamp(0, 1)
        frequencies = frequencies * (share + (1 - share) / factor)
    positions = torch.arange(first, first + length, device=device, dtype=torch.int64).float()
    angles = torch.outer(positions, frequencies)
    neighbours = form == "neighbours"
    angles = angles.repeat_interleave(2, dim=-1) if neighbours else torch.cat((angles, angles), dim=-1)
    return (angles.cos(), angles.sin()) if scale == 1 else (angles.cos() * scale, angles.sin() * scale)


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, pairs: str = "halves") -> torch.Tensor:
    """Rotate pairs of the last dim by the angles of each position.

    Elements i and i + r/2 are a pair, or with `neighbours` 2i and 2i + 1; with `regrouped` these are read, and written
    as the former. A table that is narrower than the dim leaves the elements behind it as they are.
    """
    width = cos.shape[-1]
    x, rest = x[..., :width], x[..., width:]
    if pairs == "regrouped":
        x = x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)
    if pairs == "neighbours":
        turned = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    else:
        left, right = x.chunk(2, dim=-1)
        turned = torch.cat((-right, left), dim=-1)
    rotated = x * cos.to(x.dtype) + turned * sin.to(x.dtype)
    return torch.cat((rotated, rest), dim=-1) if rest.shape[-1] else rotated
