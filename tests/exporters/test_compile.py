"""Models of bundles without point-to-point compile as one graph, and compute the same."""

from pathlib import Path

import pytest

from planner.compose import export
from planner.plan import Plan
from tests.exporters.ranks import RankProcesses
from tests.tiny import tiny_gpt2, tiny_graph, tiny_plan

pytest.importorskip("torch")
from tests.exporters.compiling import compiled

SP = (("megatron", "tp"), ("sequence_parallel", "tp"))
PLANS = {
    "tp-sp": lambda: tiny_plan("tp:2", *SP),
    "zero3-tp-sp": lambda: tiny_plan("dp:2,tp:2", ("zero3", "dp"), *SP, graph=tiny_graph("qwen3", tied=True)),
    "zero2-tp": lambda: tiny_plan("dp:2,tp:2", ("zero2", "dp"), ("megatron", "tp"), graph=tiny_gpt2()),
}


def difference(ranks: RankProcesses, plan: Plan, backend: str, folder: Path) -> float:
    export(plan, folder / "bundle")
    count = plan.decisions.mesh.device_count
    found: list[float] = ranks.run(
        1 if backend == "eager" else count, compiled, str(folder / "bundle"), count, backend, patience=900.0
    )
    return max(found)


@pytest.mark.parametrize("name", ["tp-sp", pytest.param("zero3-tp-sp", marks=pytest.mark.slow),
                                  pytest.param("zero2-tp", marks=pytest.mark.slow)])  # fmt: skip
def test_it_is_one_graph(name: str, ranks: RankProcesses, tmp_path: Path) -> None:
    """On one rank of a group that passes nothing; the numbers mean nothing there."""
    difference(ranks, PLANS[name](), "eager", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tp-sp", "zero2-tp"])
def test_it_computes_the_same_compiled(name: str, ranks: RankProcesses, tmp_path: Path) -> None:
    assert difference(ranks, PLANS[name](), "aot_eager", tmp_path) <= 1e-12
