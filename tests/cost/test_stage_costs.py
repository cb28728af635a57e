"""A pipeline's costs are those of its stages, and nothing is lost or counted twice between them."""

from __future__ import annotations

from dataclasses import fields
from itertools import pairwise

import pytest

from planner.compose import evaluate, load_model, move_boundary, pipeline_of, stages_of, train
from planner.core.portion import portion
from planner.core.report import CollectiveRow
from planner.core.stage import SEND_RECV, plain
from planner.cost import price
from planner.cost.step_time import StepSeconds
from planner.hardware import precision
from planner.plan import Plan

MESH = "pp:4,dp:2,tp:4"


def _plan(microbatches: int = 8, mesh: str = MESH) -> Plan:
    plan = Plan.new(
        load_model("llama-3-8b"), cluster="4x8-h100-sxm", mesh=mesh, global_batch=64, seq=4096,
        microbatches=microbatches,
    )  # fmt: skip
    return plan.preset("megatron", axis="tp").preset("zero1", axis="dp")


def test_the_portions_add_up_to_the_whole():
    plan = _plan().pipelined("pp")
    training, bits = train(plan), precision("bf16")
    whole = price(training, 8, bits, plan.cluster)
    parts = [price(portion(training, stage), 8, bits, plan.cluster) for stage in range(4)]
    for name in (field.name for field in fields(StepSeconds)):
        assert sum(getattr(part.seconds, name) for part in parts) == pytest.approx(getattr(whole.seconds, name)), name
    for item in ("parameters", "gradients", "optimizer state", "logits and loss"):
        assert sum(part.memory[item] for part in parts) == pytest.approx(whole.memory[item]), item
    assert sorted(row.value for part in parts for row in part.rows) == sorted(row.value for row in whole.rows)


def test_a_pipeline_costs_what_the_model_in_one_piece_costs_but_for_waiting():
    """The mean work of a rank is the one piece's, on a quarter of the ranks each: the axis of the stages divides it."""
    whole = evaluate(_plan())
    report = evaluate(_plan().pipelined("pp"))
    apart = {"optimizer", "update"}
    work = sum(child.value for child in whole.step_time.children if child.name not in apart)
    assert report.pipeline is not None
    ends = report.step_time.child("after the last pass").value
    assert report.step_time.child("work").value == pytest.approx(work / 4, rel=0.02)
    assert report.step_time.value == pytest.approx(sum(child.value for child in report.step_time.children))
    assert ends > 0
    assert report.interval[0] <= report.step_time.value <= report.interval[1]


@pytest.mark.parametrize(("schedule", "kept"), [("gpipe", [8, 8, 8, 8]), ("1f1b", [4, 3, 2, 1])])
def test_a_rank_keeps_what_the_schedule_says(schedule: str, kept: list[int]):
    report = evaluate(_plan().pipelined("pp", schedule))
    assert report.pipeline is not None
    for stage, held, count in zip(report.pipeline.stages, report.pipeline.rank_memory, kept, strict=True):
        memory = dict(stage.memory)
        activations = memory["saved activations"] + memory["logits and loss"]
        rest = sum(memory.values()) - activations
        assert held == pytest.approx(rest + count * activations)
    assert report.memory.value == pytest.approx(max(report.pipeline.rank_memory))


def test_a_message_is_a_microbatch_of_what_the_layers_carry():
    report = evaluate(_plan().pipelined("pp"))
    sent = [row for row in report.collectives if row.kind == SEND_RECV]
    # Three cuts, forward and back; 8 sequences of 4,096 tokens over dp 2, 4,096 numbers of 2 bytes.
    assert len(sent) == 6
    assert {row.payload_bytes for row in sent} == {4 * 4096 * 4096 * 2}
    assert {row.count for row in sent} == {8}


def test_the_balanced_cut_is_no_worse_than_any_move_of_one_boundary():
    plan = _plan().pipelined("pp")
    view = pipeline_of(plan)
    assert view is not None
    assert view.cuts is not None

    def busiest(cuts: tuple[int, ...]) -> float:
        loads = [sum(unit.seconds for unit in view.units[a:b]) for a, b in pairwise(cuts)]
        return max(loads)

    best = busiest(view.cuts)
    for stage in range(1, 4):
        for step in (-1, 1):
            moved = move_boundary(plan, stage, view.cuts[stage] + step)
            after = pipeline_of(moved)
            assert after is not None
            assert after.cuts is not None
            assert after.cuts[stage] == view.cuts[stage] + step
            assert busiest(after.cuts) >= best * (1 - 1e-9)


def test_405b_in_32_stages_is_balanced():
    plan = Plan.new(
        load_model("llama-3.1-405b"), cluster="64x8-h100-sxm", mesh="pp:16,dp:4,tp:8", global_batch=512, seq=8192,
        microbatches=32,
    )  # fmt: skip
    plan = plan.preset("megatron", axis="tp").preset("sequence_parallel", axis="tp").preset("zero1", axis="dp")
    plan = plan.pipelined("pp", "interleaved-1f1b", per_rank=2)
    assert len({decision.stage for decision in stages_of(plan)}) == 32
    report = evaluate(plan)
    assert report.pipeline is not None
    loads = [0.0] * 16
    for stage in report.pipeline.stages:
        loads[stage.ranks[0]] += stage.times.work
    # 126 layers do not divide by 16: the busiest rank runs 8 of them, and none could run fewer.
    layer = min(stage.times.work for stage in report.pipeline.stages[1:-1]) / 4
    assert max(loads) <= 8.05 * layer


def test_copies_of_a_parameter_are_reduced_once_a_step():
    """A tied embedding lies on the first and the last stage; in a V both are on rank 0, and nothing is sent."""
    plan = Plan.new(
        load_model("llama-3.2-1b"), cluster="1x8-h100-sxm", mesh="pp:4,tp:2", global_batch=8, seq=1024, microbatches=8
    ).preset("megatron", axis="tp")  # fmt: skip

    def copies(schedule: str) -> list[CollectiveRow]:
        rows = evaluate(plan.pipelined("pp", schedule)).collectives
        return [row for row in rows if row.axes == ("pp",) and row.kind == "all_reduce"]

    tied = copies("1f1b")
    assert {plain(row.value) for row in tied} == {"model.embed_tokens.weight"}
    # On both its owners: 128,256 rows of 2,048 over tp 2, in gradients of 2 bytes.
    assert [(row.count, row.group_size, row.payload_bytes) for row in tied] == 2 * [(1, 2, 128256 * 2048 // 2 * 2)]
    assert copies("zb-v") == []
    # In two directions, every parameter is on two ranks.
    trained = sum(row.count for row in copies("dualpipe"))
    assert trained == sum(p * n for p, n in ((9, 16), (1, 1), (2, 1)))
