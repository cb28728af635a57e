"""Plans with stages: every schedule, with what else ranks share, gives the unsharded model's loss and gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from planner.compose import train
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


COLUMNS, ROWS = "self_attn.q_proj|k_proj|v_proj", "self_attn.o_proj"
UP, DOWN = "mlp.gate_proj|up_proj", "mlp.down_proj"


def tensor_parallel(plan: Plan, layers: str, axes: tuple[str, ...]) -> Plan:
    """Shard heads and feed-forward width of some layers over axes."""
    for target, factor in ((COLUMNS, "n"), (ROWS, "k"), (UP, "n"), (DOWN, "k")):
        plan = plan.shard(f"{layers}.{target}", {factor: axes})
    return plan


def apart(name: str, which: str, *, layers: int = 4, states: str = "") -> Plan:
    """Return a plan whose stages split their four devices in different ways; the head is the embedding.

    Stages of even numbers have all of `x` and `y` for tensor parallelism, those of odd ones the samples over `x`; or
    the other way round, or with the sequence over `y` in between.
    """
    graph = with_dropout(tiny_graph("llama-biased", tied=True, num_hidden_layers=layers))
    plan = tiny_plan("pp:2,x:2,y:2", graph=graph).batch(global_batch=8, seq=8, microbatches=4)
    per_rank = SCHEDULES[name].per_rank or 2
    count = plan.pipelined("pp", name, per_rank=per_rank).parts
    bounds = [layers * stage // count for stage in range(count + 1)]
    pieces = [f"layers.{start}-{stop - 1}" for start, stop in pairwise(bounds)]
    plan = plan.pipelined("pp", name, per_rank=per_rank, stages={p: stage for stage, p in enumerate(pieces)})
    for stage, piece in enumerate(pieces):
        whole = (stage % 2 == 0) == (which != "samples first")
        plan = tensor_parallel(plan, piece, ("x", "y") if whole else ("y",))
        plan = plan.shard(f"{piece}.input_layernorm", {"batch": () if whole else ("x",)})
        if which == "sequence" and whole:
            plan = plan.shard(f"{piece}.input_layernorm|post_attention_layernorm", {"seq": ("y",)})
            plan = plan.shard(f"{piece}.residual_attention|residual_mlp", {"seq": ("y",)})
    last = (len(pieces) % 2 == 1) == (which != "samples first")
    plan = plan.shard("embed_tokens", {"vocab": ("y",) if which == "samples first" else ("x", "y")})
    plan = plan.shard("lm_head", {"n": ("x", "y") if last else ("y",)})
    return plan.store("*", of=states, axes=("x",)) if states else plan


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


def test_stages_that_split_their_devices_differently(prove_here: PROVE) -> None:
    """The copies of the embedding lie alike, since their gradients are added, though their readers want other parts."""
    plan = apart("1f1b", "samples later", layers=2)
    root = train(plan).scopes[0].assembly
    first, copy = (root.parameter(f"model.embed_tokens.weight{at}") for at in ("", "@stage1"))
    assert first is not None
    assert copy is not None
    assert str(first.storage) == str(copy.storage) == str(copy.gradient) == "[x·y, -]"
    (read,) = (f for f in train(plan).scopes[0].fanouts if f.value == "model.embed_tokens.weight@stage1")
    assert str(read.forward[0].redistribution) == "[x·y, -] → [y, -]: exchange over x·y"
    assert_proven(prove_here(plan))


@pytest.mark.slow
@pytest.mark.parametrize("states", ["", "optimizer", "storage"])
@pytest.mark.parametrize("which", ["samples later", "samples first", "sequence"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_of_such_stages(prove_here: PROVE, name: str, which: str, states: str) -> None:
    assert_proven(prove_here(apart(name, which, states=states)))


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
