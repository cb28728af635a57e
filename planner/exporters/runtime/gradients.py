"""Gradients of parameters that do not lie like the parameter, or that wait raw for the end of the step.

Autograd wants a gradient in the shape of its parameter. Where the plan gives it another layout, or lets raw gradients
of several microbatches add up before they are reduced, it is kept here instead of in `parameter.grad`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from .mesh import Mesh

Step = Callable[[torch.Tensor, Mesh], torch.Tensor]
Steps = Sequence[Step]


class Gradient:
    """The gradient of one parameter, added up over microbatches.

    Parameters
    ----------
    layout
        Where the finished gradient lies, as printed.
    deferred
        Whether the steps wait for `finish`.
    """

    def __init__(self, layout: str, *, deferred: bool) -> None:
        self.layout = layout
        self.deferred = deferred
        self.total: torch.Tensor | None = None
        self._raw: dict[tuple[int, Steps], torch.Tensor] = {}

    def add(self, way: int, steps: Steps, raw: torch.Tensor, mesh: Mesh) -> None:
        """Take a raw gradient; `way` tells apart raw gradients of one parameter that come back by other steps."""
        if not self.deferred:
            self._finished(run(steps, raw, mesh))
            return
        # Stages that hold one parameter may bring its gradient back by different steps.
        key = way, tuple(steps)
        self._raw[key] = self._raw[key] + raw if key in self._raw else raw

    def finish(self, mesh: Mesh) -> None:
        """Do the steps that were deferred."""
        for key in sorted(self._raw, key=lambda key: key[0]):
            self._finished(run(key[1], self._raw.pop(key), mesh))

    def _finished(self, part: torch.Tensor) -> None:
        self.total = part if self.total is None else self.total + part


def run(steps: Steps, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    """Do the steps one after the other."""
    for step in steps:
        x = step(x, mesh)
    return x


def own_gradients(model: nn.Module) -> dict[str, Gradient]:
    """Return the gradients that are kept apart, by the full names of their parameters."""
    return {
        f"{path}.{name}": gradient
        for path, module in model.named_modules()
        for name, gradient in getattr(module, "gradients", {}).items()
    }


def finish_gradients(model: nn.Module, mesh: Mesh) -> None:
    """Finish the gradients of a step."""
    for gradient in own_gradients(model).values():
        gradient.finish(mesh)
