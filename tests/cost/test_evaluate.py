from dataclasses import replace
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_model import HIDDEN, LAYERS, VOCAB, WIDTH, training_graph

from planner.core.gradient_decision import GradientDecision
from planner.core.mesh import DeviceMesh
from planner.core.plan import Decisions, FactorDecision, ParameterDecision
from planner.core.report import PHASES, CostItem
from planner.cost import evaluate, price
from planner.errors import PlannerError
from planner.hardware import PRECISIONS, cluster

PLANS = {
    "one device": ({"dp": 1}, (), ()),
    "data": ({"dp": 4}, (("embed", "batch", "dp"),), ()),
    "data and tensor": (
        {"dp": 2, "tp": 2},
        (("embed", "batch", "dp"), ("layers.*.up", "n", "tp"), ("layers.*.down", "k", "tp")),
        (),
    ),
    "fetched again": (
        {"dp": 4},
        (("embed", "batch", "dp"),),
        (ParameterDecision(target="*", axes=("dp",), regather=True),),
    ),
    "optimizer cut": (
        {"dp": 4},
        (("embed", "batch", "dp"),),
        (ParameterDecision(target="*", of="optimizer", axes=("dp",)),),
    ),
    "gradients cut": (
        {"dp": 4},
        (("embed", "batch", "dp"),),
        (ParameterDecision(target="*", of="gradient", axes=("dp",)),),
    ),
    "gradients deferred": (
        {"dp": 4},
        (("embed", "batch", "dp"),),
        (ParameterDecision(target="*", of="gradient", axes=("dp",), deferred=True),),
    ),
    "one layer otherwise": ({"dp": 2, "tp": 2}, (("embed", "batch", "dp"), ("layers.1.up", "n", "tp")), ()),
}


EXPOSED = "exposed communication of parameters"


def decisions(name, **more):
    mesh, factors, parameters = PLANS[name]
    settings = {"cluster": "2x8-h100-sxm", "global_batch": 8, "seq": 8} | more
    return Decisions(
        mesh=DeviceMesh.of(mesh),
        factors=tuple(FactorDecision(target=t, factor=f, axes=(a,)) for t, f, a in factors),
        parameters=parameters,
        **settings,
    )


def report(name, layers=LAYERS, **more):
    chosen = decisions(name, **more)
    return evaluate(training_graph(chosen, layers), chosen, cluster(chosen.cluster))


def assert_sums(item: CostItem):
    """Children of the item's own unit make it up; others are its inputs."""
    for inner in item.walk():
        parts = [child.value for child in inner.children if child.unit == inner.unit]
        if parts:
            assert inner.value == pytest.approx(sum(parts), rel=1e-12, abs=1e-15), inner.name


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("microbatches", [1, 2])
def test_trees_equal_the_numbers_and_sum_up(name, microbatches):
    chosen = decisions(name, microbatches=microbatches)
    training, spec = training_graph(chosen), cluster(chosen.cluster)
    numbers = price(training, microbatches, PRECISIONS["bf16"], spec, chosen.gradients)
    found = evaluate(training, chosen, spec)
    assert_sums(found.step_time)
    assert_sums(found.memory)
    assert found.step_time.value == pytest.approx(numbers.seconds.estimate, rel=1e-12)
    time = {item.name: item.value for item in found.step_time.children}
    parts = numbers.seconds
    assert time["compute, forward"] == pytest.approx(parts.forward)
    assert time["compute, backward"] == pytest.approx(parts.backward)
    assert time["communication of activations"] == pytest.approx(parts.activations_forward + parts.activations_backward)
    exposed = parts.exposed - parts.activations_forward - parts.activations_backward
    reductions = time.get("exposed gradient communication", 0.0)
    assert reductions == pytest.approx(
        parts.gradients + parts.deferred - parts.hidden_gradients - parts.hidden_deferred, abs=1e-15
    )
    assert time["exposed communication of parameters"] == pytest.approx(exposed - reductions, abs=1e-15)
    assert time["optimizer"] == parts.optimizer
    assert found.memory.value == pytest.approx(sum(numbers.memory.values()), rel=1e-12)
    assert {item.name: item.value for item in found.memory.children} == numbers.memory


@pytest.mark.parametrize("name", PLANS)
def test_the_estimate_lies_in_its_interval(name):
    for global_batch, seq in ((8, 8), (64, 4096)):
        found = report(name, global_batch=global_batch, seq=seq)
        lower, upper = found.interval
        assert 0 < lower <= found.step_time.value * (1 + 1e-12)
        assert found.step_time.value <= upper * (1 + 1e-12)


def test_fetching_parameters_hides_behind_its_phase():
    short, long = report("fetched again"), report("fetched again", global_batch=1024, seq=4096)
    assert short.step_time.child(EXPOSED).value > 0
    assert long.step_time.child(EXPOSED).value == pytest.approx(0, abs=1e-12)
    assert long.step_time.child(EXPOSED).child("communication").value > 0


def test_reductions_of_gradients_hide_only_where_they_overlap():
    sizes = {"global_batch": 1024, "seq": 4096}
    exposed = "exposed gradient communication"
    waits = report("data", **sizes).step_time.child(exposed)
    beside = report("data", **sizes, gradients=GradientDecision(overlap=True)).step_time.child(exposed)
    assert waits.value == waits.child("communication").value > 0
    # The embedding's is ready last, when nothing is left to hide it.
    (last,) = rows(report("data"), value="embed.weight", phase="backward")
    assert beside.value == pytest.approx(last.seconds)


def rows(found, **wanted):
    return [r for r in found.collectives if all(getattr(r, key) == value for key, value in wanted.items())]


def test_data_parallel_reduces_every_gradient_once_a_microbatch_and_layer():
    found = report("data", microbatches=2)
    reduced = {r.value: r for r in rows(found, phase="backward", parameter=True)}
    assert set(reduced) == {"embed.weight", "head.weight", "layers.*.up.weight", "layers.*.down.weight"}
    up = reduced["layers.*.up.weight"]
    assert (up.kind, up.axes, up.group_size, up.scope) == ("all_reduce", ("dp",), 4, "layers.0-2")
    assert up.count == LAYERS * 2
    assert up.payload_bytes == 2 * HIDDEN * WIDTH
    assert up.wire_bytes == 2 * 3 / 4 * 2 * HIDDEN * WIDTH
    assert up.readers == ("layers.*.up",)
    assert reduced["head.weight"].count == 2
    assert not rows(found, phase="forward", parameter=True)


def test_gradients_are_moved_in_the_gradient_type():
    found = report("data", precision="bf16-fp32grad")
    assert rows(found, value="head.weight")[0].payload_bytes == 4 * VOCAB * WIDTH


def test_dropped_parameters_are_fetched_again_in_backward():
    found = report("fetched again")
    first = rows(found, phase="forward", value="layers.*.up.weight")
    again = rows(found, phase="backward", value="layers.*.up.weight", kind="all_gather")
    assert [r.kind for r in first] == ["all_gather"]
    assert all(r.again for r in again)
    assert [replace(r, phase="forward", again=False) for r in again] == first
    assert [r.kind for r in rows(found, phase="backward", value="layers.*.up.weight")][1:] == ["reduce_scatter"]


def test_new_values_come_back_once_a_step():
    """ZeRO-1: a gradient is reduced for each microbatch, and cut and gathered for none."""
    found = report("optimizer cut", microbatches=2)
    up = rows(found, value="layers.*.up.weight")
    assert [(r.phase, r.kind, r.readers, r.count) for r in up] == [
        ("backward", "all_reduce", ("layers.*.up",), 2 * LAYERS),
        ("update", "slice", ("optimizer",), LAYERS),
        ("update", "all_gather", ("storage",), LAYERS),
    ]
    # Values in bf16, and three quarters of them from other ranks.
    assert up[2].wire_bytes == 3 / 4 * 2 * HIDDEN * WIDTH
    update = sum(r.seconds * r.count for r in rows(found, phase="update"))
    assert found.step_time.child(EXPOSED).child("communication").child("update").value == pytest.approx(update)


def test_deferred_gradients_are_reduced_once_a_step():
    at_once, deferred = (report(f"gradients {n}", global_batch=16, microbatches=4) for n in ("cut", "deferred"))
    (back,) = rows(at_once, value="head.weight", kind="reduce_scatter")
    (late,) = rows(deferred, value="head.weight", kind="reduce_scatter")
    assert (back.phase, back.count, late.phase, late.count) == ("backward", 4, "update", 1)
    assert replace(late, phase="backward", count=4) == back


def test_rows_come_in_the_order_of_the_phases():
    phases = [r.phase for r in report("fetched again").collectives]
    assert phases == sorted(phases, key=PHASES.index)


def test_flops_are_those_of_the_unsharded_model():
    # A linear of t tokens: 2·t·n·k forward, twice that backward; per element: embedding backward 1, add 1, loss 5 + 3.
    tokens, found = 8 * 8, report("data and tensor")
    linears = 6 * tokens * (LAYERS * 2 * WIDTH * HIDDEN + VOCAB * WIDTH)
    assert found.flops == linears + tokens * (WIDTH + LAYERS * WIDTH + 8 * VOCAB)
    assert found.flops == report("one device").flops == report("data", microbatches=2).flops


def test_mfu_and_tokens_follow_from_the_step_time():
    found = report("data")
    assert found.mfu == pytest.approx(found.flops / (found.step_time.value * 4 * 989.4e12))
    assert found.tokens_per_second == pytest.approx(64 / found.step_time.value)
    assert found.capacity_bytes == 80e9


@given(st.integers(1, 200))
def test_cost_is_linear_in_the_layers(layers):
    def numbers(count):
        chosen = decisions("data and tensor")
        priced = price(training_graph(chosen, count), 1, PRECISIONS["bf16"], cluster(chosen.cluster))
        return priced.seconds, priced.memory

    (one, small), (two, medium), (many, large) = numbers(1), numbers(2), numbers(layers)
    assert many.forward == pytest.approx(one.forward + (layers - 1) * (two.forward - one.forward))
    assert many.communication == pytest.approx(
        one.communication + (layers - 1) * (two.communication - one.communication)
    )
    for item, value in large.items():
        assert value == pytest.approx(small[item] + (layers - 1) * (medium[item] - small[item])), item


def test_runs_of_a_cut_repeat_cost_what_the_uncut_repeat_costs():
    whole = price(training_graph(decisions("data")), 1, PRECISIONS["bf16"], cluster("2x8-h100-sxm"))
    pinned = replace(
        decisions("data"),
        factors=(*decisions("data").factors, FactorDecision(target="layers.1.up", factor="batch", axes=("dp",))),
    )
    training = training_graph(pinned)
    assert len(training.scopes) == 4
    cut = price(training, 1, PRECISIONS["bf16"], cluster("2x8-h100-sxm"))
    assert cut.seconds.estimate == pytest.approx(whole.seconds.estimate)
    assert cut.memory == pytest.approx(whole.memory)


def test_over_capacity_says_where_the_most_is():
    found = report("data", global_batch=4096, seq=1 << 20)
    (finding,) = [d for d in found.diagnostics if d.code == "memory.over-capacity"]
    assert finding.severity == "warning"
    assert finding.subject == "logits and loss"
    gb = found.memory.value / 1e9
    most = found.memory.child("logits and loss").value / 1e9
    assert finding.message == (
        f"The fullest device needs {gb:.1f} GB of its 80.0 GB; the most is logits and loss with {most:.1f} GB."
    )
    assert finding.hint == "Shard the vocabulary, or use more microbatches."


def test_what_fits_has_no_finding():
    assert report("data").diagnostics == ()


def test_an_unknown_precision_is_refused():
    with pytest.raises(PlannerError, match=r"no precision 'fp8'"):
        report("data", precision="fp8")


def test_neither_layers_nor_ranks_cost_time():
    """126 layers on 16,384 ranks: the group facts are made once, and nothing else depends on their number."""
    chosen = Decisions(
        cluster="2048x8-h100-sxm",
        mesh=DeviceMesh.of({"dp": 2048, "tp": 8}),
        global_batch=2048,
        seq=4096,
        factors=(
            FactorDecision(target="embed", factor="batch", axes=("dp",)),
            FactorDecision(target="layers.*.up", factor="n", axes=("tp",)),
            FactorDecision(target="layers.*.down", factor="k", axes=("tp",)),
        ),
    )
    training, spec = training_graph(chosen, 126), cluster(chosen.cluster)
    evaluate(training, chosen, spec)
    best = min(_seconds(lambda: evaluate(training, chosen, spec)) for _ in range(3))
    assert best < 0.05


def _seconds(run):
    start = process_time()
    run()
    return process_time() - start
