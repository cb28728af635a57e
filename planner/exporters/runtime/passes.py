"""The passes of one stage: forward, and backward in one or two parts, with what is kept between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import nn
from torch.autograd.graph import GradientEdge, get_gradient_edge

from .regather import Values, regathering
from .split_backward import backward_inputs
from .stages import Stage

Tensors = dict[str, torch.Tensor]


@dataclass
class _Kept:
    """What backward needs of a microbatch: what came from other stages, where gradients come in, and that of a loss."""

    received: Tensors
    given: dict[str, GradientEdge]
    seed: Tensors
    values: Values
    later: Callable[[], None] | None = None


class Passes:
    """Runs a stage; `module` is what the stage built."""

    def __init__(self, stage: Stage, module: nn.Module) -> None:
        self.stage, self.module = stage, module
        self._kept: dict[int, _Kept] = {}

    def forward(
        self,
        microbatch: int,
        inputs: Tensors,
        received: Tensors,
        *,
        weight: float | None,
        scale: float,
        regather: bool,
    ) -> Tensors:
        """Return what the stage gives, by name.

        Parameters
        ----------
        inputs, received
            What it takes: inputs of the model, and values of other stages; those with gradients require them.
        weight
            What the last stage's loss counts for in that of the step; None for other stages.
        scale
            What gradients are multiplied by.
        regather
            Whether gathered parameters are dropped until backward.
        """
        dropped = Values()
        with regathering(dropped) if regather else nullcontext():
            found = self.module(*(inputs[name] if name in inputs else received[name] for name in self.stage.takes))
        values = dict(zip(self.stage.gives, found if isinstance(found, tuple) else (found,), strict=True))
        loss = self.stage.gives[-1]
        if weight is not None:
            values[loss] = values[loss] * weight
        self._kept[microbatch] = _Kept(
            received={name: x for name, x in received.items() if x.requires_grad},
            given={name: get_gradient_edge(x) for name, x in values.items() if x.requires_grad},
            seed={} if weight is None else {loss: torch.full_like(values[loss], scale)},
            values=dropped,
        )
        return values

    def backward(self, microbatch: int, gradients: Mapping[str, torch.Tensor]) -> Tensors:
        """Add the gradients of the weights to them, and return those of received values; absent if there are none."""
        kept = self._kept.pop(microbatch)
        edges, come = _begun(kept, gradients)
        if edges:
            torch.autograd.backward(edges, come)
        return {name: x.grad for name, x in kept.received.items() if x.grad is not None}

    def backward_inputs(self, microbatch: int, gradients: Mapping[str, torch.Tensor]) -> Tensors:
        """Return the gradients of received values; those of the weights follow when `backward_weights` asks."""
        kept = self._kept[microbatch]
        edges, come = _begun(kept, gradients)
        found, kept.later = backward_inputs(edges, come, list(kept.received.values()), kept.values.unwanted)
        return {name: x for name, x in zip(kept.received, found, strict=True) if x is not None}

    def backward_weights(self, microbatch: int) -> None:
        """Add the gradients of the weights to them."""
        later = self._kept.pop(microbatch).later
        assert later is not None, "the gradients of the inputs come first"
        later()


def _begun(kept: _Kept, gradients: Mapping[str, torch.Tensor]) -> tuple[list[GradientEdge], list[torch.Tensor]]:
    """Return where gradients come in, and the gradients."""
    come = {**gradients, **kept.seed}
    names = [name for name in kept.given if name in come]
    return [kept.given[name] for name in names], [come[name] for name in names]
