"""Checkpoints: bit for bit the same whole tensors on other ranks under other plans, complete or not there."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from planner.compose import export
from planner.core.graph import ModelGraph
from planner.plan import Plan
from tests.exporters.ranks import RankProcesses
from tests.tiny import tiny_graph, tiny_plan

torch = pytest.importorskip("torch")

from tests.exporters import saving  # noqa: E402

MEGATRON = (("megatron", "tp"), ("sequence_parallel", "tp"))
SIZES = {"vocab_size": 33, "hidden_size": 30, "intermediate_size": 50}
"""Sizes that no axis divides."""


@cache
def uneven() -> ModelGraph:
    return tiny_graph("qwen2", tied=True, **SIZES)


PAIRS = {
    "dp-tp to tp": ("dp:2,tp:4", MEGATRON, "tp:4", MEGATRON),
    "zero3 to zero1": ("dp:2,tp:4", (("zero3", "dp"), *MEGATRON), "dp:4", (("zero1", "dp"),)),
    "zero1 to zero3 with tp": ("dp:8", (("zero1", "dp"),), "dp:2,tp:2", (("zero3", "dp"), *MEGATRON)),
}
QUICK = ("zero3 to zero1",)


def written(plan: Plan, folder: Path) -> Path:
    export(plan, folder)
    return folder


@pytest.fixture(scope="module")
def ranks() -> Iterator[RankProcesses]:
    with RankProcesses() as processes:
        yield processes


def kept_on(ranks: RankProcesses, plans: Sequence[Plan], folder: Path) -> None:
    """Save on the first plan's ranks and read on the others'."""
    first, *others = [written(plan, folder / f"bundle-{index}") for index, plan in enumerate(plans)]
    ranks.run(plans[0].decisions.mesh.device_count, saving.write, first, folder / "saved")
    for plan, other in zip(plans[1:], others, strict=True):
        answers = ranks.run(plan.decisions.mesh.device_count, saving.read, other, folder / "saved" / "step-00000005")
        state, count = answers[0]
        assert state == {"step": 5, "seed": 3}
        assert count > 20
        assert answers == [answers[0]] * len(answers)


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in PAIRS])
def test_other_ranks_read_the_same_numbers(name: str, ranks: RankProcesses, tmp_path: Path) -> None:
    mesh, presets, other_mesh, others = PAIRS[name]
    kept_on(
        ranks, (tiny_plan(mesh, *presets, graph=uneven()), tiny_plan(other_mesh, *others, graph=uneven())), tmp_path
    )
