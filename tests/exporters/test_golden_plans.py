"""What is written for four plans besides those of `test_bundle` and `test_native`, kept to be read by people."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner.compose import bundle
from planner.plan import Plan
from tests.tiny import tiny_gpt2, tiny_graph, tiny_plan


def _pipeline() -> Plan:
    graph = tiny_graph(tied=True, num_hidden_layers=4)
    return tiny_plan("pp:2,dp:2", ("zero1", "dp"), graph=graph, microbatches=4).pipelined("pp", "zb-h1")


def _again() -> Plan:
    plan = tiny_plan("dp:2", ("data_parallel", "dp"), graph=tiny_gpt2(), microbatches=2)
    return plan.recompute("h.*").store("*", of="optimizer", place="host")


PLANS: dict[str, Callable[[], Plan]] = {
    "sequence-parallel": lambda: tiny_plan("tp:2", ("megatron", "tp"), ("sequence_parallel", "tp")),
    "zero3-tp": lambda: tiny_plan("dp:2,tp:2", ("zero3", "dp"), ("megatron", "tp")),
    "stages": _pipeline,
    "recompute-host": _again,
}
WRITTEN = ("model.py", "stages.py", "train.py")


@pytest.mark.parametrize("name", PLANS)
def test_golden(golden: Callable[[str, str], None], name: str) -> None:
    files = bundle(PLANS[name]())
    for path in WRITTEN:
        if path in files:
            golden(f"plans/{name}/{path}", files[path])
