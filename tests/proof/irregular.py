"""Small torch modules that are no plain stack of layers, and their graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, cast

import torch
from torch import nn

from planner.core.graph import ModelGraph, ModelSource
from planner.core.json_text import digest
from planner.importers.aten.build import build
from planner.importers.feeds import feeds_of
from planner.importers.tracing.trace import WithLoss, trace

VOCAB, WIDTH = 12, 8


class Dense(nn.Module):
    """A layer of one kind."""

    def __init__(self, wide: int = 16) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up = nn.Linear(WIDTH, wide)
        self.down = nn.Linear(wide, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Gated(nn.Module):
    """A layer of another kind, with a list of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.branches = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])

    def forward(self, x: Any) -> Any:
        a, b, c = (branch(x) for branch in self.branches)
        return x + a * torch.sigmoid(b) + c


class OnTokens(nn.Module):
    """A module between a table and a head."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, WIDTH)
        self.body = body
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.body(self.table(tokens)))


class Stack(nn.Module):
    """Layers one after the other."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x


class Biased(nn.Module):
    """A layer that adds what the first layer made, as relative positions are."""

    def __init__(self, first: bool) -> None:
        super().__init__()
        self.first = first
        self.mix = nn.Linear(WIDTH, WIDTH)
        if first:
            self.bias = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any, memory: Any, bias: Any) -> tuple[Any, Any]:
        if self.first:
            bias = torch.tanh(self.bias(memory))
        return x + self.mix(x) * memory + bias, bias


class EncoderDecoder(nn.Module):
    """An encoder's result is read by all layers of a decoder, whose first layer differs."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = Stack(*(Dense() for _ in range(3)))
        self.decoder = nn.ModuleList([Biased(i == 0) for i in range(4)])

    def forward(self, x: Any) -> Any:
        memory, bias = self.encoder(x), None
        for layer in self.decoder:
            x, bias = layer(x, memory, bias)
        return x


class Bottleneck(nn.Module):
    """A block as ResNet's: some have another way around."""

    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(into, 4), nn.ReLU(), nn.Linear(4, out))
        self.downsample = nn.Sequential(nn.Linear(into, out, bias=False)) if into != out else None

    def forward(self, x: Any) -> Any:
        around = x if self.downsample is None else self.downsample(x)
        return torch.relu(self.inner(x) + around)


class Stages(nn.Module):
    """Stages of which the first block differs from the others."""

    def __init__(self) -> None:
        super().__init__()
        for stage, (into, out) in enumerate(((WIDTH, 12), (12, WIDTH)), start=1):
            blocks = [Bottleneck(into, out), *(Bottleneck(out, out) for _ in range(2))]
            self.add_module(f"layer{stage}", nn.Sequential(*blocks))

    def forward(self, x: Any) -> Any:
        return self.layer2(self.layer1(x))


class Skips(nn.Module):
    """What goes down is read again on the way up: lists in lists, and values that cross modules."""

    def __init__(self) -> None:
        super().__init__()
        self.down_blocks = nn.ModuleList([Stack(Dense(), Dense(12)) for _ in range(2)])
        self.middle = nn.ModuleDict({"in": Dense(), "2nd": Gated()})
        self.up_blocks = nn.ModuleList([Stack(Dense(), Dense(12)) for _ in range(2)])

    def forward(self, x: Any) -> Any:
        kept: list[Any] = []
        down, up = cast("Any", self.down_blocks), cast("Any", self.up_blocks)
        for block in down:
            for layer in block.layers:
                x = layer(x)
                kept.append(x)
        x = self.middle["2nd"](self.middle["in"](x))
        for block in up:
            for layer in block.layers:
                x = layer(x + kept.pop())
        return x


class Again(nn.Module):
    """One layer runs several times, and another one has code of others between its own."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Dense()
        self.two = Two()

    def forward(self, x: Any) -> Any:
        for _ in range(3):
            x = self.layer(x)
        y = self.two.before(x)
        return self.two.after(self.layer(torch.sin(y)), y)


class Two(nn.Module):
    """A module with two functions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Dense(), Gated()

    def before(self, x: Any) -> Any:
        return self.first(x) * 2

    def after(self, x: Any, y: Any) -> Any:
        return self.second(x) + self.first(y)

    def forward(self, x: Any) -> Any:
        return self.after(self.before(x), x)


class OutOfTurn(nn.Module):
    """Calls modules in and out of turn, each through its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Stack(Gated())
        self.other = Dense()

    def forward(self, x: Any) -> Any:
        gated: Any = self.inner.layers[0]
        return gated(self.other(self.inner(x)))


class Parameters(nn.Module):
    """Parameters beside modules, in lists, shared by layers, read from outside, and unused."""

    def __init__(self) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.randn(WIDTH))
        self.scales = nn.ParameterList([nn.Parameter(torch.randn(WIDTH)) for _ in range(2)])
        self.layers = nn.ModuleList([Scaled(self.scales[1]) for _ in range(3)])
        self.unused = Dense()

    def forward(self, x: Any) -> Any:
        first: Any = self.layers[0]
        x = first.inner(x * self.scales[0] + self.offset)
        for layer in self.layers:
            x = layer(x)
        return x


class Scaled(nn.Module):
    """A layer with a parameter of its own and one of all layers."""

    def __init__(self, scale: nn.Parameter) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.randn(WIDTH))
        self.scale = scale
        self.inner = Dense()

    def forward(self, x: Any) -> Any:
        return self.inner(x) * self.scale + self.shift


class States(nn.Module):
    """Two values go from layer to layer, and all layers read what the first one got."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.ModuleList([Cell() for _ in range(3)])

    def forward(self, x: Any) -> Any:
        state, start = torch.tanh(x), x
        for cell in self.cells:
            x, state = cell(x, state, start)
        return x


class Cell(nn.Module):
    """A layer with two values."""

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.keep = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any, state: Any, start: Any) -> tuple[Any, Any]:
        state = torch.tanh(self.keep(state) + x)
        return self.mix(x) * state + start, state


class Collected(nn.Module):
    """The results of all layers are read after the last, so that they are written out."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Dense() for _ in range(3)])

    def forward(self, x: Any) -> Any:
        found = []
        for layer in self.layers:
            x = layer(x)
            found.append(x)
        return torch.stack(found).mean(0)


MODELS: Mapping[str, Callable[[], nn.Module]] = {
    "two classes": lambda: Stack(*(Gated() for _ in range(2)), *(Dense() for _ in range(4))),
    "alternating": lambda: Stack(*(kind() for _ in range(3) for kind in (Dense, Gated)), Dense()),
    "encoder and decoder": EncoderDecoder,
    "stages": Stages,
    "skips": Skips,
    "again": Again,
    "out of turn": OutOfTurn,
    "parameters": Parameters,
    "states": States,
    "collected": Collected,
}
REPEATS = {
    "two classes": [("body.layers.0-1", 2), ("body.layers.2-5", 4)],
    "alternating": [("body.layers.0-5", 3)],
    "encoder and decoder": [("body.encoder.layers", 3), ("body.decoder.1-3", 3)],
    "stages": [("body.layer1.1-2", 2), ("body.layer2.1-2", 2)],
    "parameters": [("body.layers.1-2", 2)],
    "states": [("body.cells", 3)],
}
"""The repeated blocks of each; of the others none."""


@cache
def model_of(name: str) -> nn.Module:
    """Return a model in float64."""
    torch.manual_seed(len(name))
    return OnTokens(MODELS[name]()).double()


def loss_of(model: Any, tokens: Any, labels: Any) -> tuple[Any, Any]:
    """Return the loss and the logits."""
    logits = model(tokens)
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), logits


@cache
def irregular_graph(name: str) -> ModelGraph:
    """Return the graph of a model."""
    tokens = torch.zeros(4, 6, dtype=torch.int64)
    dims = {"tokens": ("B", "S"), "labels": ("B", "S")}
    program = trace(WithLoss(model_of(name), loss_of), {"tokens": tokens, "labels": tokens.clone()}, dims, name)
    graph = build(program, ModelSource(name=name, kind="test", digest=digest("{}"), content="{}"), name)
    return replace(graph, feeds=feeds_of(graph.root))
