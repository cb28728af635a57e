"""Plans with stages: every schedule, with what else ranks share, gives the unsharded model's loss and gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.core.gradient_decision import GradientDecision
from planner.core.plan import PipelineDecision
from planner.plan import Plan
from planner.proof import Proof
from planner.schedules import SCHEDULES
from tests.tiny import tiny_graph, tiny_plan, with_dropout

pytest.importorskip("torch")

PROVE = Callable[[Plan], Proof]
WITH: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "dp": ("dp:2", (("data_parallel", "dp"),)),
    "tp": ("tp:2", (("megatron", "tp"), ("sequence_parallel", "tp"))),
    "zero1": ("dp:2", (("zero1", "dp"),)),
    "zero3": ("dp:2", (("zero3", "dp"),)),
}


def staged(name: str, ranks: int, more: str, *, layers: int = 5, recompute: bool = False, fused: bool = False) -> Plan:
    """Return a plan of a model whose head is its embedding, with dropout, in stages of unequal layers."""
    axes, presets = WITH[more]
    per_rank = SCHEDULES[name].per_rank or 2
    graph = with_dropout(tiny_graph("llama-biased", tied=True, num_hidden_layers=layers))
    plan = tiny_plan(f"pp:{ranks},{axes}", *presets, graph=graph)
    plan = plan.batch(global_batch=4 * ranks, seq=8, microbatches=2 * ranks)
    pipeline = PipelineDecision(axis="pp", schedule=name, per_rank=per_rank)
    gradients = GradientDecision(fusion="size", bucket_bytes=20_000, overlap=True) if fused else GradientDecision()
    plan = replace(plan, decisions=replace(plan.decisions, pipeline=pipeline, gradients=gradients))
    return plan.recompute("layers|h.*", again=True) if recompute else plan


def assert_proven(proof: Proof) -> None:
    assert proof.ok, (proof.failures, proof.collectives, [row for row in proof.rows if not row.ok])


@pytest.mark.parametrize(
    ("name", "more"),
    [("1f1b", "tp"), ("interleaved-1f1b", "zero3"), ("zb-v", "zero3"), ("dualpipe", "zero1")],
)
def test_a_sample(prove_here: PROVE, name: str, more: str) -> None:
    assert_proven(prove_here(staged(name, 2, more)))


def test_layers_that_are_computed_again_are_so_once_in_two_parts_of_backward(prove_here: PROVE) -> None:
    assert_proven(prove_here(staged("zb-h1", 2, "tp", recompute=True)))


def test_gradients_are_fused_within_stages(prove_here: PROVE) -> None:
    assert_proven(prove_here(staged("1f1b", 2, "dp", fused=True)))


@pytest.mark.slow
@pytest.mark.parametrize("more", WITH)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule(prove_here: PROVE, name: str, ranks: int, more: str) -> None:
    assert_proven(prove_here(staged(name, ranks, more, layers=2 * ranks + 1)))


@pytest.mark.slow
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_with_recompute(prove_here: PROVE, name: str) -> None:
    assert_proven(prove_here(staged(name, 2, "dp", recompute=True)))
