"""What training asks of a model that runs in stages; others it brings through microbatch after microbatch itself."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch

from .data import Batch
from .settings import Settings


@runtime_checkable
class RunsInStages(Protocol):
    """A model of which each rank holds some stages, and which runs a step by a schedule."""

    def loss_of_step(self, batch: Batch, settings: Settings, *, scale: float = 1.0) -> torch.Tensor:
        """Run a step on a global batch; return its loss on every rank and leave gradients in the parameters.

        The gradients are multiplied by `scale`.
        """

    def spread(self) -> None:
        """Give all copies of a parameter the values of the first."""

    def ranks_holding(self, name: str) -> int:
        """Return how many ranks hold a parameter or a shard of it."""
