"""A module without weights that runs again is a line of the code that calls it."""

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from planner.core.graph import ModelGraph, ModelSource
from planner.core.json_text import digest
from planner.importers.aten.build import build
from planner.importers.tracing.trace import WithLoss, trace


class Block(nn.Module):
    def __init__(self, again: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.act = nn.ReLU()
        self.again = again

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(self.act(self.first(x)))
        return self.act(x) if self.again else x


class Model(nn.Module):
    def __init__(self, again: bool) -> None:
        super().__init__()
        self.inner = Block(again)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)  # type: ignore[no-any-return]


def graph_of(again: bool) -> ModelGraph:
    def run(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = model(x)
        return y.square().mean(), y

    program = trace(WithLoss(Model(again), run), {"x": torch.zeros(4, 8)}, {"x": ("B", "")}, "reused")
    return build(program, ModelSource(name="reused", kind="test", digest=digest("{}"), content="{}"), "reused")


def test_one_that_runs_again_belongs_to_its_caller() -> None:
    graph = graph_of(again=True)
    found = [(node.name, node.module) for node in graph.root.nodes if node.op == "relu"]
    assert found == [("inner/act_relu", "inner"), ("inner/act_relu_2", "inner")]
    assert graph.logits == "inner/act_relu_2"


def test_one_that_runs_once_stays() -> None:
    found = [(node.name, node.module) for node in graph_of(again=False).root.nodes if node.op == "relu"]
    assert found == [("inner.act", "inner.act")]
