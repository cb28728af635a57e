"""Keep only what goes into a part of the model, and compute the part again in backward.

Chen et al. 2016, "Training deep nets with sublinear memory cost". What is computed again is the same to the bit:
dropout is a function of the step, the sequence and the place, and no generator's state is needed.

`torch.utils.checkpoint` computes a part again for each call of backward. Here, what was computed again stays until
autograd needs it no more: a backward that comes in two parts finds in the second what the first has computed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch.autograd.graph import saved_tensors_hooks

from .mesh import Mesh

Result = TypeVar("Result", torch.Tensor, tuple[torch.Tensor, ...], None)


def recompute(function: Callable[..., Result], mesh: Mesh, *given: torch.Tensor) -> Result:
    """Return `function(*given)`, of which nothing but `given` is kept.

    Backward calls the function again, as far as the last operator that keeps something, collectives with it.
    """
    if not torch.is_grad_enabled():
        return function(*given)
    at = mesh.step, mesh.sequence
    # Kept as any operator keeps what it needs: a gathered parameter that was let go is gathered again.
    inputs = _Inputs.apply(torch.empty((), requires_grad=True), *given)
    wanted = [x.requires_grad for x in given]

    def again() -> None:
        # Backward may come when the next microbatch has gone through the model.
        now = mesh.step, mesh.sequence
        mesh.step, mesh.sequence = at
        try:
            with torch.enable_grad():
                kept = zip(inputs.grad_fn.saved_tensors, wanted, strict=True)
                function(*(x.detach().requires_grad_(with_gradient) for x, with_gradient in kept))
        finally:
            mesh.step, mesh.sequence = now

    dropped = _Dropped(again)
    with saved_tensors_hooks(dropped.drop, _Place.tensor):
        return function(*given)


class _Inputs(torch.autograd.Function):
    """Keeps tensors as an operator does, and computes nothing."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, *given: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(*given)
        return anchor.clone()

    @staticmethod
    def backward(ctx: Any, *_: torch.Tensor) -> Any:
        raise AssertionError("nothing depends on this")


class _Enough(Exception):
    """All that autograd had kept is there again."""


class _Dropped:
    """What autograd would have kept of a part, by the order in which it came."""

    def __init__(self, again: Callable[[], None]) -> None:
        self.again = again
        self.count = 0
        # The places that some node still asks for, and what was computed again for them.
        self.alive: set[int] = set()
        self.tensors: dict[int, torch.Tensor] = {}

    def drop(self, x: torch.Tensor) -> _Place:
        """Count a tensor that autograd wants to keep."""
        self.count += 1
        self.alive.add(self.count - 1)
        return _Place(self, self.count - 1)

    def compute(self) -> None:
        """Compute the part again, and keep what is kept then."""
        found = 0

        def keep(x: torch.Tensor) -> None:
            # The graph of this run keeps nothing: a result that it kept would keep the graph.
            nonlocal found
            if found in self.alive:
                self.tensors[found] = x.detach()
            found += 1
            if found == self.count:
                raise _Enough

        try:
            with saved_tensors_hooks(keep, _never):
                self.again()
        except _Enough:
            return
        raise RuntimeError(f"a part kept {self.count} tensors, and {found} when it was computed again")


def _never(_: object) -> torch.Tensor:
    raise AssertionError("nobody asks the graph that was only run to fill the places")


@dataclass(eq=False)
class _Place:
    """Stands for a tensor that was dropped; when autograd lets go of it, so does the part."""

    dropped: _Dropped
    number: int

    def tensor(self) -> torch.Tensor:
        """Return the tensor, computed again if it is not there."""
        if self.number not in self.dropped.tensors:
            self.dropped.compute()
        return self.dropped.tensors[self.number]

    def __del__(self) -> None:
        self.dropped.alive.discard(self.number)
        self.dropped.tensors.pop(self.number, None)
