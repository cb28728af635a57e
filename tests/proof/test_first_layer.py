"""Models whose first layer reads an input, which needs no gradient: its backward does less than that of the others."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from planner.compose import load_model, train
from planner.core.graph import ModelGraph
from planner.plan import Plan
from planner.proof import Proof

from .test_presets import assert_proven

WIDTH, HIDDEN = 16, 24


class Layered(nn.Module):
    """Four layers, and nothing before them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_Layer() for _ in range(4))
        self.last = nn.Linear(WIDTH, 1)

    def forward(self, x: Any, target: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return (self.last(x).squeeze(-1) - target).square().mean()


class _Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.tanh(self.up(x)))


@cache
def layered() -> ModelGraph:
    return load_model(Layered(), {"x": torch.zeros(4, WIDTH), "target": torch.zeros(4)})


def plan_on(mesh: str) -> Plan:
    """Return a plan with ZeRO-3 and tensor parallelism of the layers."""
    plan = Plan.new(
        layered(), cluster="1x8-h100-sxm", mesh=mesh, global_batch=8, microbatches=2, precision="float64"
    ).preset("zero3", axis="dp")  # fmt: skip
    return plan.shard("layers.*.up", {"n": ("tp",)}).shard("layers.*.down", {"k": ("tp",)})


CASES: dict[str, Callable[[], Plan]] = {
    "as it is": lambda: plan_on("dp:4,tp:2"),
    "recomputed": lambda: plan_on("dp:4,tp:2").recompute("layers.*"),
    "in stages": lambda: plan_on("dp:2,tp:2,pp:2").pipelined("pp", "1f1b"),
}


@pytest.mark.parametrize("name", CASES)
def test_as_many_collectives_run_as_planned(prove_here: Callable[..., Proof], name: str) -> None:
    assert_proven(prove_here(CASES[name]()))


def test_it_is_a_run_by_itself() -> None:
    found = {scope.assembly.title: scope for scope in train(plan_on("dp:4,tp:2")).scopes}
    assert {title: scope.assembly.count for title, scope in found.items()} == {"": 1, "layers.0": 1, "layers.1-3": 3}
    backward = {
        title: next(f.gradient is not None for f in scope.fanouts if f.kind != "parameter")
        for title, scope in found.items()
        if title
    }
    assert backward == {"layers.0": False, "layers.1-3": True}
