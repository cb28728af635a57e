"""Parameters of traced modules: shared, turned, frozen, and read by nothing."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

from planner.core.graph import ModelGraph, ModelSource  # noqa: E402
from planner.core.json_text import digest  # noqa: E402
from planner.errors import ModelError  # noqa: E402
from planner.importers.aten.build import build  # noqa: E402
from planner.importers.aten.lower import lower  # noqa: E402
from planner.importers.aten.program import Program  # noqa: E402
from planner.importers.aten.strip import strip  # noqa: E402
from planner.importers.tracing.trace import WithLoss, trace  # noqa: E402
from planner.verify import verify_graph  # noqa: E402

from .running import assert_same  # noqa: E402


class Scale(nn.Module):
    """A frozen scale, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.by = nn.Parameter(torch.linspace(1, 2, 8, dtype=torch.float64), requires_grad=False)
        self.register_buffer("shift", torch.full((8,), 0.5, dtype=torch.float64))

    def forward(self, x: Any) -> Any:
        return x * self.by + self.shift


class Tied(nn.Module):
    """Embedding and head share a table; a layer is not called; a gate is read for indices alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 8, dtype=torch.float64)
        self.norm = nn.LayerNorm(8, dtype=torch.float64)
        self.turned = nn.Linear(8, 8, bias=False, dtype=torch.float64)
        self.scale = Scale()
        self.idle = nn.Linear(8, 3, dtype=torch.float64)
        self.gate = nn.Linear(8, 4, dtype=torch.float64)
        self.head = nn.Linear(8, 11, dtype=torch.float64)
        self.head.weight = self.table.weight

    def forward(self, tokens: Any) -> Any:
        x = self.scale(self.norm(self.table(tokens)))
        x = x + self.turned(x) @ self.turned.weight.t()
        best = self.gate(x).argmax(-1, keepdim=True)
        return self.head(x + x.gather(-1, best))


def loss_of(model: Any, tokens: Any) -> tuple[Any, Any]:
    logits = model(tokens)
    return F.cross_entropy(logits.flatten(0, 1), tokens.flatten()), logits


@pytest.fixture(scope="module")
def tied() -> tuple[Tied, Program]:
    torch.manual_seed(3)
    module = Tied()
    tokens = torch.randint(11, (4, 6))
    return module, trace(WithLoss(module, loss_of), {"tokens": tokens}, {"tokens": ("B", "S")}, "tied")


def graph_of(program: Program) -> ModelGraph:
    source = ModelSource(name="tied", kind="graph", digest=digest("{}"), content="{}")
    return build(program, source, "tied")


def test_loss_and_gradients(tied: tuple[Tied, Program]) -> None:
    module, program = tied
    flat = lower(strip(program))
    frozen = {p.name for p in flat.block.parameters if not p.trainable}
    assert frozen == {"scale.by", "idle.weight", "idle.bias", "gate.weight", "gate.bias"}
    assert_same(module, flat.block, loss_of)


def test_every_parameter_is_there_once(tied: tuple[Tied, Program]) -> None:
    module, program = tied
    graph = graph_of(program)
    shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    assert {p.name: p.meta.shape for p in graph.root.parameters} == shapes
    assert graph.parameter_count == sum(p.numel() for p in module.parameters())
    assert verify_graph(graph) == ()


def test_how_they_start(tied: tuple[Tied, Program]) -> None:
    kinds = {p.name: p.initial for p in graph_of(tied[1]).root.parameters}
    assert kinds["norm.weight"] == "ones"
    assert kinds["norm.bias"] == kinds["head.bias"] == "zeros"
    assert kinds["table.weight"] == kinds["turned.weight"] == "normal"


class Unknown(nn.Module):
    """A buffer of which only the shape is known."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.empty(8, device="meta"))
        self.table = nn.Parameter(torch.empty(11, 8, device="meta"))

    def forward(self, tokens: Any) -> Any:
        return F.embedding(tokens, self.table) * self.places


def test_a_buffer_without_values_is_named() -> None:
    tokens = torch.zeros(4, 6, dtype=torch.long, device="meta")
    run = WithLoss(Unknown(), lambda model, tokens: (model(tokens).sum(), model(tokens)))
    program = trace(run, {"tokens": tokens}, {"tokens": ("B", "S")}, "small")
    with pytest.raises(ModelError, match=r"buffer places, a compute\[8\], are not known"):
        lower(strip(program))


class Positions(nn.Module):
    """A table that is no parameter, and too large to be written into a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("places", torch.randn(9000, 8, dtype=torch.float64))
        self.table = nn.Parameter(torch.randn(11, 8, dtype=torch.float64))

    def forward(self, tokens: Any) -> Any:
        return F.embedding(tokens, self.table) @ self.table.T + F.embedding(tokens, self.places) @ self.table.T


def test_a_large_buffer_is_given() -> None:
    tokens = torch.zeros(4, 6, dtype=torch.long)
    module = Positions()
    program = trace(WithLoss(module, loss_of), {"tokens": tokens}, {"tokens": ("B", "S")}, "tied")
    graph = graph_of(program)
    assert {p.name: (p.initial, p.trainable) for p in graph.root.parameters} == {
        "table": ("normal", True), "places": ("given", False)
    }  # fmt: skip
    assert graph.parameter_count == 88
    assert verify_graph(graph) == ()
