"""What equal operators share changes nothing: a plan has the same strategies, view and report without sharing."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from planner import compose
from planner.plan import Plan
from planner.verify import verify_training
from tests.tiny import tiny_graph

assigning: Any = import_module("planner.assign.assign")
drawing: Any = import_module("planner.drawing.view")


class Forgetful(dict[Any, Any]):
    """A memo that says of everything that it was never there."""

    def __contains__(self, _: object) -> bool:
        return False


def _plan(model: str = "llama", *, tied: bool = False) -> Plan:
    plan = Plan.new(
        tiny_graph(model, tied=tied, num_hidden_layers=8), cluster="1x8-h100-sxm", mesh={"pp": 2, "dp": 2, "tp": 2},
        global_batch=16, seq=16, microbatches=4,
    )  # fmt: skip
    return plan.preset("zero1", axis="dp").preset("megatron", axis="tp")


PLANS: dict[str, Callable[[], Plan]] = {
    "balanced": lambda: _plan().pipelined("pp"),
    "virtual stages": lambda: _plan().pipelined("pp", "interleaved-1f1b", per_rank=2),
    "uneven": lambda: _plan().pipelined("pp", stages={"layers.0-2": 0, "layers.3-7": 1}),
    "a layer by hand": lambda: _plan().shard("layers.5.mlp.gate_proj", {"n": ()}).pipelined("pp"),
    "recompute in one": lambda: _plan().recompute("layers.0-3").pipelined("pp"),
    "tied head": lambda: _plan(tied=True).pipelined("pp"),
    "experts": lambda: _plan("mixtral").pipelined("pp"),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_is_the_same_without_sharing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = PLANS[name]()
    shared, view = compose.train(plan), compose.view(plan)

    class Alone(assigning._Work):  # type: ignore[misc]
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.known = Forgetful()

    class Apart(drawing._Drawer):  # type: ignore[misc]
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.factors = Forgetful()

    monkeypatch.setattr(assigning, "_Work", Alone)
    monkeypatch.setattr(drawing, "_Drawer", Apart)
    assert compose.train(plan) == shared
    assert compose.view(plan, shared) == view
    assert not verify_training(shared)
