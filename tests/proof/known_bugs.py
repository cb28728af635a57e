"""Small modules in which known silent bugs of other tools would show, as their users would write them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

WIDTH, HIDDEN, CLASSES, HEADS = 16, 24, 12, 4
WIDE, DEEP = 512, 8


class Preferences(nn.Module):
    """The log-probabilities of all classes are weighted, as in preference losses; no cross-entropy reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, CLASSES)

    def forward(self, x: Any, weights: Any) -> Any:
        likely = torch.log_softmax(self.head(torch.tanh(self.hidden(x))), dim=-1)
        return -(likely * weights).sum(-1).mean()


class Gated(nn.Module):
    """A product over its whole width, times a gate, plus a bias; `readers` of the sum beside the loss."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(HIDDEN, WIDTH)
        self.gate, self.last = nn.Parameter(torch.ones(WIDTH)), nn.Linear(WIDTH, 1)

    def forward(self, x: Any, target: Any) -> Any:
        y = self.down(torch.tanh(self.up(x))) * self.gate
        return (self.last(torch.tanh(x + y)).squeeze(-1) - target).square().mean()


class Adapted(nn.Module):
    """A linear with a low-rank adapter beside it: the narrow product is read by another product."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.base = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
        self.narrow, self.wide = nn.Linear(HIDDEN, 4, bias=False), nn.Linear(4, WIDTH, bias=False)
        self.last = nn.Linear(WIDTH, 1)

    def forward(self, x: Any, target: Any) -> Any:
        y = torch.tanh(self.up(x))
        y = self.base(y) + self.wide(self.narrow(y))
        return (self.last(torch.tanh(y)).squeeze(-1) - target).square().mean()


class Added(nn.Module):
    """A product over its whole width, plus a branch that every rank has whole."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH, bias=False)
        self.branch, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)

    def forward(self, x: Any, target: Any) -> Any:
        y = self.down(torch.tanh(self.up(x))) + self.branch(x)
        return (self.last(torch.tanh(y)).squeeze(-1) - target).square().mean()


class Scaled(nn.Module):
    """Every head has a number of its own, as attention sinks are."""

    def __init__(self) -> None:
        super().__init__()
        self.sinks = nn.Parameter(torch.ones(HEADS))
        self.up, self.last = nn.Linear(WIDTH, HEADS), nn.Linear(HEADS, 1)

    def forward(self, x: Any, target: Any) -> Any:
        return (self.last(torch.tanh(self.up(x)) * self.sinks).squeeze(-1) - target).square().mean()


class Stacked(nn.Module):
    """Products over a wide dim, one after the other: what each loses, the next ones carry on."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 1)
        self.layers = nn.ModuleList(_Wide() for _ in range(DEEP))

    def forward(self, x: Any, target: Any) -> Any:
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return (self.last(x).squeeze(-1) - target).square().mean()


class _Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, WIDE, bias=False), nn.Linear(WIDE, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(torch.tanh(self.up(x)))


def example(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return inputs of four samples."""
    x = torch.zeros(4, WIDTH)
    return {"x": x, "weights": torch.zeros(4, CLASSES)} if isinstance(module, Preferences) else {
        "x": x, "target": torch.zeros(4),
    }  # fmt: skip
