"""What a run holds in shards: a part of a tensor, and where it lies in the whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from .layout import Box, box
from .mesh import Mesh


@dataclass(frozen=True)
class Shard:
    """A tensor as this rank holds it.

    Parameters
    ----------
    local
        This rank's part; reading writes into it.
    shape
        Of the whole tensor.
    layout
        Where its parts lie, as printed.
    """

    local: torch.Tensor
    shape: tuple[int, ...]
    layout: str

    def box(self, mesh: Mesh) -> Box:
        """Return the index range that this rank holds, per dim."""
        return box(self.layout, self.shape, mesh)


Shards = Mapping[str, Shard]
