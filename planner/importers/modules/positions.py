"""Sinusoidal features of positions and of timesteps, made where they are used: no table is kept.

Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def sinusoids(positions: Tensor, width: int, dtype: torch.dtype) -> Tensor:
    """Return cosines, then sines, of positions `[…]` at `width / 2` frequencies from 1 down to 1e-4: `[…, width]`."""
    half = width // 2
    steps = torch.arange(half, dtype=torch.float32, device=positions.device)
    frequencies = torch.exp(steps * (-math.log(10_000.0) / half))
    angles = positions.to(torch.float32).unsqueeze(-1) * frequencies
    return torch.cat((torch.cos(angles), torch.sin(angles)), dim=-1).to(dtype)


def grid_sinusoids(side: int, width: int, like: Tensor) -> Tensor:
    """Return features of the places of a square grid, row by row: `[side², width]`, half for columns, half for rows."""
    places = sinusoids(torch.arange(side, dtype=torch.float32, device=like.device), width // 2, like.dtype)
    columns = places.unsqueeze(0).expand(side, side, width // 2)
    rows = places.unsqueeze(1).expand(side, side, width // 2)
    return torch.cat((columns, rows), dim=-1).reshape(side * side, width)
