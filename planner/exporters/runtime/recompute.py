"""Keep only what goes into a part of the model, and compute the part again in backward.

Chen et al. 2016, "Training deep nets with sublinear memory cost". What is computed again is the same to the bit:
dropout is a function of the step, the sequence and the place, and no generator's state is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch.utils.checkpoint import checkpoint

from .mesh import Mesh

Result = TypeVar("Result", torch.Tensor, tuple[torch.Tensor, ...], None)


def recompute(function: Callable[..., Result], mesh: Mesh, *given: torch.Tensor) -> Result:
    """Return `function(*given)`, of which nothing but `given` is kept.

    Backward calls the function again, as far as the last operator that keeps something, collectives with it.
    """
    at = mesh.step, mesh.sequence

    def run(*again: torch.Tensor) -> Result:
        # Backward may come when the next microbatch has gone through the model.
        now = mesh.step, mesh.sequence
        mesh.step, mesh.sequence = at
        try:
            return function(*again)
        finally:
            mesh.step, mesh.sequence = now

    result: Result = checkpoint(run, *given, use_reentrant=False, preserve_rng_state=False)
    return result
