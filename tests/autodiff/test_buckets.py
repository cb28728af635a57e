"""Which reductions of gradients share a collective."""

from collections import Counter
from math import prod

import pytest

from planner.collectives import COLLECTIVES
from planner.compose import train
from planner.core.assignment import TrainingGraph
from planner.core.bucket import LOCAL, PACKED, Bucket
from planner.core.gradient_decision import AUTO_BUCKET_BYTES, COMPRESSIONS, GradientDecision
from planner.errors import PlannerError
from planner.plan import Plan
from tests.tiny import tiny_graph, tiny_plan

ELEMENT = 8
DECISIONS = {
    "alone": {"overlap": True},
    "auto": {"fusion": "auto"},
    "all layers": {"fusion": "size", "bucket_bytes": 1 << 20},
    "two layers": {"fusion": "size", "bucket_bytes": 40_000 * ELEMENT // 4},
    "parts of a layer": {"fusion": "size", "bucket_bytes": 1000 * ELEMENT},
    "smaller than any": {"fusion": "size", "bucket_bytes": 1},
    "at places": {"fusion": "index", "indices": (1, 4, 15, 16)},
}
PLANS = {
    "data": ("dp:4", (("data_parallel", "dp"),)),
    "optimizer cut": ("dp:4", (("zero1", "dp"),)),
    "gradients cut, tensors too": ("dp:2,tp:2", (("zero2", "dp"), ("megatron", "tp"))),
    "two data axes": ("dp:2,rep:2", (("zero2", "dp"), ("data_parallel", "rep"))),
}


def plan(name: str, layers: int = 5, **decision: object) -> Plan:
    mesh, presets = PLANS[name]
    graph = tiny_graph(num_hidden_layers=layers)
    return tiny_plan(mesh, *presets, graph=graph).gradients(**decision)  # type: ignore[arg-type]


def layer_names(training: TrainingGraph, bucket: Bucket) -> list[list[tuple[str, int, int]]]:
    """Return the (parameter, way, layer) of every bucket that one stands for, as the exported code cuts them."""
    found = []
    ranges = [(m.parameter, m.way, list(range(m.start, m.stop))) for m in bucket.members]
    count = len(ranges[0][2])
    for stop in range(count, 0, -bucket.together) if bucket.together else [count]:
        start = max(0, stop - bucket.together) if bucket.together else 0
        cut = [(p, w, layers[start:stop] if bucket.together else layers) for p, w, layers in ranges]
        found.append([(p, w, layer) for p, w, layers in cut for layer in layers])
    return found


@pytest.mark.parametrize("decision", DECISIONS)
@pytest.mark.parametrize("name", PLANS)
def test_every_reduction_is_in_one_bucket(name: str, decision: str) -> None:
    training = train(plan(name, **DECISIONS[decision]))
    wanted = Counter(
        (f.value, way, layer)
        for scope in training.scopes
        for f in scope.fanouts
        if f.kind == "parameter"
        for way, delivery in enumerate(f.backward)
        if any(step.kind in PACKED for step in delivery.redistribution.steps)
        for layer in range(scope.assembly.start, scope.assembly.stop)
    )
    found = [names for bucket in training.buckets for names in layer_names(training, bucket)]
    assert Counter(one for names in found for one in names) == wanted
    assert len(found) == sum(bucket.count for bucket in training.buckets)
    assert {f.value for s in training.scopes for f in s.fanouts if f.bucketed} == {one[0] for one in wanted}


@pytest.mark.parametrize("decision", [name for name in DECISIONS if name != "at places"])
@pytest.mark.parametrize("name", PLANS)
def test_no_bucket_of_several_is_larger_than_said_and_none_could_take_the_next(name: str, decision: str) -> None:
    chosen = plan(name, **DECISIONS[decision])
    training, most = train(chosen), chosen.decisions.gradients.largest_bucket
    mesh = training.assignment.mesh
    for bucket in training.buckets:
        for layers, _ in bucket.cuts:
            size = bucket.elements(0, layers, mesh)[0] * ELEMENT
            sizes = [prod(m.shared[0].source_shape) * ELEMENT for m in bucket.members]
            assert size == sum(sizes) * (layers or 1)
            assert size <= most or (len(sizes) == 1 and layers in (0, 1))
    for before, after in zip(training.buckets, training.buckets[1:], strict=False):
        if before.calls == after.calls and before.together == after.together == 1:
            first = prod(after.members[0].shared[0].source_shape) * ELEMENT
            assert before.elements(0, 1, mesh)[0] * ELEMENT + first > most


def test_whole_layers_as_many_as_fit() -> None:
    layer = sum(
        m.shared[0].source_elements for b in train(plan("data", fusion="auto")).buckets for m in b.members if m.scope
    )
    for fit, cuts in ((5, ((5, 1),)), (3, ((3, 1), (2, 1))), (2, ((2, 2), (1, 1))), (1, ((1, 5),))):
        training = train(plan("data", fusion="size", bucket_bytes=(fit * layer + 1) * ELEMENT))
        (run,) = [b for b in training.buckets if b.members[0].scope]
        assert run.cuts == cuts


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_shares_a_scale_is_alike_on_the_same_ranks(compression: str) -> None:
    """Under tensor parallelism norms are whole on each rank, and everything else is cut."""
    training = train(plan("gradients cut, tensors too", fusion="auto", compression=compression))
    mixed = [{"tp" in member.moved.source.used for member in bucket.members} for bucket in training.buckets]
    assert (len(max(mixed, key=len)) == 1) == (compression in {"fp16", "int8", "one_bit"})
    assert {one for each in mixed for one in each} == {True, False}


def test_buckets_come_in_the_order_of_backward() -> None:
    names = [m.parameter for b in train(plan("data", fusion="auto")).buckets for m in b.members]
    assert names[0] == "lm_head.weight"
    assert names[-1] == "model.embed_tokens.weight"
    layer = [name for name in names if ".*." in name]
    assert layer[0].endswith("mlp.down_proj.weight")
    assert layer[-1].endswith("input_layernorm.weight")


def test_positions_count_parameters_in_the_order_of_forward_layer_by_layer() -> None:
    training = train(plan("data", layers=2, fusion="index", indices=(1, 4, 15, 16)))
    found = [sorted(names, key=lambda one: one[2]) for b in training.buckets for names in layer_names(training, b)]
    sizes = [len(names) for names in found]
    # 1 table, 9 a layer, 1 norm, 1 head; the last bucket is full first.
    assert sizes == [21 - 16, 1, 11, 3, 1]
    assert {one[0] for one in found[4]} == {"model.embed_tokens.weight"}
    assert {one[2] for one in found[3]} == {0}
    assert {one[2] for one in found[2]} == {0, 1}
    assert [one[0].rpartition("*.")[2] for one in found[1]] == ["post_attention_layernorm.weight"]


def test_a_position_beyond_the_last_parameter() -> None:
    with pytest.raises(PlannerError, match=r"parameter 21, and the model has 21") as caught:
        train(plan("data", layers=2, fusion="index", indices=(21,)))
    assert caught.value.code == "plan.gradient-position"


def test_deferred_reductions_are_in_buckets_of_their_own() -> None:
    chosen = plan("data", fusion="auto").store("*mlp*", of="gradient", deferred=True)
    for bucket in train(chosen).buckets:
        assert {"mlp" in m.parameter for m in bucket.members} == {bucket.deferred}


def test_what_can_not_be_packed_is_told_and_reduced_alone() -> None:
    """A table of 33 rows is cut unequally over four ranks."""
    chosen = tiny_plan("dp:4", ("zero2", "dp"), graph=tiny_graph(vocab_size=33, num_hidden_layers=1))
    chosen = chosen.store("lm_head.weight", of="gradient", layout="[dp, -]")
    training = train(chosen.gradients(fusion="auto", compression="int8"))
    (note,) = [d for d in training.assignment.diagnostics if d.code == "plan.gradient-alone"]
    assert (note.subject, note.severity) == ("lm_head.weight", "note")
    assert "not as int8" in note.message
    assert "lm_head.weight" not in {m.parameter for b in training.buckets for m in b.members}
    assert not any(d.code == "plan.gradient-alone" for d in train(plan("data", fusion="auto")).assignment.diagnostics)


def test_nothing_is_in_a_bucket_where_nothing_is_decided() -> None:
    assert train(plan("data")).buckets == ()
    assert train(plan("data", reduction="sum")).buckets == ()


def test_local_and_packed_kinds_are_those_of_the_registry() -> None:
    assert set(LOCAL) == {name for name, definition in COLLECTIVES.items() if definition.local}
    assert set(PACKED) <= set(COLLECTIVES)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"fusion": "big"}, "plan.gradient-choice"),
        ({"compression": "fp8"}, "plan.gradient-choice"),
        ({"reduction": "max"}, "plan.gradient-choice"),
        ({"fusion": "size"}, "plan.gradient-bucket"),
        ({"fusion": "auto", "bucket_bytes": 5}, "plan.gradient-bucket"),
        ({"fusion": "size", "bucket_bytes": -1}, "plan.gradient-bucket"),
        ({"fusion": "index"}, "plan.gradient-indices"),
        ({"indices": (3,)}, "plan.gradient-indices"),
        ({"fusion": "index", "indices": (3, 3)}, "plan.gradient-indices"),
        ({"fusion": "index", "indices": (0, 3)}, "plan.gradient-indices"),
    ],
)
def test_refusals(wrong: dict[str, object], code: str) -> None:
    with pytest.raises(PlannerError) as caught:
        GradientDecision(**wrong)  # type: ignore[arg-type]
    assert caught.value.code == code


def test_a_compression_that_makes_nothing_smaller() -> None:
    small = plan("data").precise("bf16")
    with pytest.raises(PlannerError) as caught:
        small.gradients(compression="fp16")
    assert caught.value.code == "plan.gradient-type"
    assert small.gradients(compression="int8").decisions.gradients.compression == "int8"
    assert small.precise("bf16-fp32grad").gradients(compression="fp16").decisions.gradients.compression == "fp16"


def test_what_is_not_given_stays() -> None:
    one = plan("data", fusion="size", bucket_bytes=100, overlap=True)
    two = one.gradients(compression="one_bit").decisions.gradients
    assert (two.fusion, two.bucket_bytes, two.overlap, two.compression) == ("size", 100, True, "one_bit")
    assert one.gradients(fusion="auto").decisions.gradients.largest_bucket == AUTO_BUCKET_BYTES
