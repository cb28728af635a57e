"""The places where samples come in, and that sharding them there shards the batch of everything that follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.assign import sample_factors
from planner.compose import train
from planner.core.graph import Block, ModelGraph, Value
from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.errors import PlannerError
from planner.importers.builder import BlockBuilder
from planner.importers.feeds import feeds_of
from planner.plan import Plan
from tests.proof import small_models
from tests.tiny import tiny_gpt2, tiny_graph, tiny_plan

BATCH = symbol("B")


def vision(batch: object = BATCH) -> ModelGraph:
    """Return a model of images without sequences, whose square weight has a dim as large as no input's."""
    build = BlockBuilder()
    size = batch if isinstance(batch, int) else BATCH
    pixels = build.input("pixels", TensorMeta((size, 3, 8, 8)))
    labels = build.input("labels", TensorMeta((size,), "int64"))
    (x,) = build.node("stem", "convolution", pixels, build.parameter("stem.weight", (16, 3, 8, 8)))
    (x,) = build.node("flat", "reshape", x, attributes={"sizes": f"{size}, 16"})
    (weight,) = build.node(
        "weight_scaled", "scale", build.parameter("head.weight", (16, 16)), attributes={"factor": 0.5}
    )
    (x,) = build.node("head", "matmul", x, weight)
    (loss,) = build.node("loss", "cross_entropy", x, labels, attributes={"ignore_index": -100})
    block = build.block(loss)
    base = small_models.model("vision", lambda _build, y: y)
    modules = tuple(dict.fromkeys((base.modules[0], *(replace(base.modules[0], path=n.name) for n in block.nodes))))
    return replace(base, root=block, modules=modules, logits=x, feeds=feeds_of(block))


def test_samples_come_in_where_inputs_are_read() -> None:
    assert sample_factors(tiny_graph()) == (("embed_tokens", "batch"),)
    assert sample_factors(tiny_gpt2()) == (("wte", "batch"),)
    assert sample_factors(vision()) == (("stem", "batch"),)
    assert sample_factors(vision(4)) == ()


def test_a_block_may_be_the_first_to_read_an_input() -> None:
    graph = tiny_graph()
    inner = graph.root.repeats[0]
    outer, captured = Value(name="bias", meta=TensorMeta((BATCH,))), Value(name="own", meta=TensorMeta((BATCH,)))
    build = BlockBuilder()
    build.input("own", captured.meta)
    build.node("model.layers.*/warm", "exp", "own")
    block = replace(inner.block, inputs=(*inner.block.inputs, captured), body=(*build.block().nodes, *inner.block.body))
    repeat = replace(inner, block=block, operands=(*inner.operands, "bias"))
    body = tuple(repeat if item == inner else item for item in graph.root.body)
    root: Block = replace(graph.root, inputs=(*graph.root.inputs, outer), body=body)
    assert sample_factors(replace(graph, root=root)) == (("embed_tokens", "batch"), ("warm", "h"))


def test_the_batch_of_everything_follows_and_no_weight_is_cut_by_accident() -> None:
    plan = Plan.new(vision(), cluster="1x4-h100-sxm", mesh="dp:4", global_batch=8).preset("data_parallel", axis="dp")
    assembly = train(plan).assignment.assemblies[0]
    cut = {n.node.name: {f for f, axes in n.strategy.factors if axes} for n in assembly.nodes}
    assert cut["weight_scaled"] == set()
    assert all(len(cut[name]) == 1 for name in ("stem", "flat", "head"))
    assert all(not placed.storage.used for placed in assembly.parameters)


def test_presets_multiply_with_decisions_that_were_there() -> None:
    plan = tiny_plan("dp:2,tp:2", ("zero3", "dp"), ("megatron", "tp"))
    assert {(d.target, d.factor, d.axes) for d in plan.decisions.factors} >= {
        ("embed_tokens", "batch", ("dp",)), ("embed_tokens", "vocab", ("tp",)),
    }  # fmt: skip


def test_a_model_with_a_fixed_batch_is_no_data_parallel_one() -> None:
    plan = Plan.new(vision(4), cluster="1x4-h100-sxm", mesh="dp:4", global_batch=1)
    with pytest.raises(PlannerError) as found:
        plan.preset("zero3", axis="dp")
    assert found.value.diagnostic.code == "plan.no-samples"


@pytest.mark.parametrize(
    ("batch", "sizes", "code"),
    [(4, {"global_batch": 2}, "plan.batch-fixed"), (BATCH, {"global_batch": 2, "seq": 5}, "plan.seq-without")],
)
def test_what_a_model_does_not_leave_open_is_not_chosen(batch: object, sizes: dict[str, int], code: str) -> None:
    with pytest.raises(PlannerError) as found:
        Plan.new(vision(batch), cluster="1x1-h100-sxm", mesh="dp:1", **sizes)
    assert found.value.diagnostic.code == code


def test_a_sequence_needs_its_length() -> None:
    with pytest.raises(PlannerError) as found:
        Plan.new(tiny_graph(), cluster="1x1-h100-sxm", mesh="dp:1", global_batch=1)
    assert found.value.diagnostic.code == "plan.seq-missing"
