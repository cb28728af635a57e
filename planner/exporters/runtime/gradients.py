"""Gradients of parameters that do not lie like the parameter, or that are finished later than backward makes them.

Autograd wants a gradient in the shape of its parameter, at once. Where the plan gives it another layout, lets raw
gradients of several microbatches add up before they are reduced, or reduces several parameters' together, it is kept
here instead of in `parameter.grad`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import nn

from .mesh import Mesh

Step = Callable[[torch.Tensor, Mesh], torch.Tensor]
Steps = Sequence[Step]


Memory = dict[str, torch.Tensor]
"""What a compression keeps of a bucket from one time to the next."""


class Bucket(Protocol):
    """Where a raw gradient waits until those are there that it is reduced with; `fusion` has the one there is.

    Attributes
    ----------
    gradients
        All that wait for each other here.
    memory
        Reduction → what a compression keeps of it.
    """

    gradients: list[Gradient]
    memory: dict[str, Memory]

    @property
    def passed_as(self) -> str:
        """The name of the compression."""

    def take(self, gradient: Gradient, steps: Steps, raw: torch.Tensor) -> None:
        """Take a raw gradient; what comes of it is handed to the gradient's `finished`."""

    def finish(self) -> None:
        """Wait for all that was taken."""


class Exchange(Protocol):
    """How gradients are put into buckets; `fusion` has the one there is."""

    def open(self, model: nn.Module, mesh: Mesh) -> None:
        """Give the gradients of a model their buckets, unless they have them."""

    def uncompressed(self) -> Exchange:
        """Return the same buckets, passed as they are."""


class Gradient:
    """The gradient of one parameter, added up over microbatches.

    Parameters
    ----------
    layout
        Where the finished gradient lies, as printed.
    deferred
        Whether the steps wait for the last microbatch.

    Attributes
    ----------
    buckets
        Way → the bucket that reduces what comes back by it.
    later
        Steps of the raw gradient that a compiled model leaves in the parameter's `grad`; None without one.
    """

    def __init__(self, layout: str, *, deferred: bool) -> None:
        self.layout = layout
        self.deferred = deferred
        self.total: torch.Tensor | None = None
        self.buckets: dict[int, Bucket] = {}
        self.later: Steps | None = None
        self._raw: dict[tuple[int, Steps], torch.Tensor] = {}

    def add(self, way: int, steps: Steps, raw: torch.Tensor, mesh: Mesh) -> None:
        """Take a raw gradient; `way` tells apart raw gradients of one parameter that come back by other steps."""
        if self.deferred:
            # Stages that hold one parameter may bring its gradient back by different steps.
            key = way, tuple(steps)
            raw = self._raw[key] + raw if key in self._raw else raw
            # What waits for others can go before the whole of backward is done.
            if not mesh.last or way not in self.buckets:
                self._raw[key] = raw
                return
            self._raw.pop(key, None)
        self._reduce(way, steps, raw, mesh)

    def finish(self, mesh: Mesh) -> None:
        """Do the steps that were deferred."""
        for way, steps in sorted(self._raw, key=lambda key: key[0]):
            self._reduce(way, steps, self._raw.pop((way, steps)), mesh)

    def finished(self, part: torch.Tensor) -> None:
        """Add what was reduced."""
        self.total = part if self.total is None else self.total + part

    def _reduce(self, way: int, steps: Steps, raw: torch.Tensor, mesh: Mesh) -> None:
        if way in self.buckets:
            self.buckets[way].take(self, steps, raw)
        else:
            self.finished(run(steps, raw, mesh))


def run(steps: Steps, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    """Do the steps one after the other."""
    for step in steps:
        x = step(x, mesh)
    return x


def keep_gradients_in(model: nn.Module, mesh: Mesh, dtype: torch.dtype) -> None:
    """Reduce gradients and add them up over microbatches in a wider element type than that of their parameters.

    Of 64 equal gradients a sum in bfloat16 loses what lies below 1/256 of it each time, so it stops growing early.

    Raises
    ------
    RuntimeError
        Where this torch allows no gradient of another element type than its parameter.
    """
    narrow = [p for p in model.parameters() if p.requires_grad and p.dtype.itemsize < dtype.itemsize]
    if not narrow:
        return
    if not hasattr(narrow[0], "grad_dtype"):
        raise RuntimeError(
            f"torch {torch.__version__} can't keep gradients in {dtype} beside parameters in {narrow[0].dtype}: use a "
            "newer one, whose tensors have `grad_dtype`, or --dtype float32"
        )
    mesh.gradient = dtype
    for parameter in narrow:
        parameter.grad_dtype = dtype


def own_gradients(model: nn.Module) -> dict[str, Gradient]:
    """Return the gradients that are kept apart, by the full names of their parameters."""
    return {
        f"{path}.{name}".lstrip("."): gradient
        for path, module in model.named_modules()
        for name, gradient in getattr(module, "gradients", {}).items()
    }


def finish_gradients(model: nn.Module, mesh: Mesh) -> None:
    """Finish the gradients of a step."""
    named = own_gradients(model)
    own = named.values()
    for name in [name for name, gradient in named.items() if gradient.later is not None]:
        parameter = model.get_parameter(name)
        raw, parameter.grad = parameter.grad, None
        if raw is not None:
            named[name].add(0, named[name].later or (), raw, mesh)
    for gradient in own:
        gradient.finish(mesh)
    for bucket in {id(b): b for gradient in own for b in gradient.buckets.values()}.values():
        bucket.finish()
