"""The type in which sums over many numbers are taken."""

from __future__ import annotations

import torch


def at_least_float32(x: torch.Tensor) -> torch.Tensor:
    """Return x in float32, or as it is where that is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
