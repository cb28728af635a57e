"""Small functions of batch and sequence whose programs hold nothing but constants, without torch's checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from planner.importers.aten.program import Program
from planner.importers.tracing.trace import WithLoss, trace

Make = Callable[[Any], Any]
"""Tokens, of which only the shape may be read → the constant."""


class _Probe(torch.nn.Module):
    def __init__(self, make: Make, buffer: torch.Tensor | None) -> None:
        super().__init__()
        self.make = make
        self.scale = torch.nn.Parameter(torch.ones(()))
        if buffer is not None:
            self.register_buffer("held", buffer)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        value = self.make(tokens) if not hasattr(self, "held") else self.make(tokens, self.held)
        return torch.stack([(part * self.scale).sum() for part in (value if isinstance(value, tuple) else (value,))])


def program(make: Make, buffer: torch.Tensor | None = None) -> Program:
    """Return the program that multiplies what a function makes with a weight."""
    tokens = torch.zeros(8, 64, dtype=torch.long)

    def run(model: torch.nn.Module, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        made = model(tokens)
        return made.sum(), made

    found = trace(WithLoss(_Probe(make, buffer), run), {"tokens": tokens}, {"tokens": ("B", "S")}, "probe")
    return replace(found, calls=tuple(call for call in found.calls if call.results))
