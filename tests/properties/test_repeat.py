"""A repeated block counts as its layers written out, and costs no more to work out than one of them."""

from collections import Counter
from dataclasses import replace

import pytest

from planner.compose import evaluate, train
from planner.core.report import Report
from planner.plan import Plan
from tests.tiny import tiny_graph, tiny_plan

PRESETS = (("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
LAYERS = 4


def plan(layers: int = LAYERS) -> Plan:
    return tiny_plan("dp:2,tp:2", *PRESETS, graph=tiny_graph("qwen3-biased", num_hidden_layers=layers), microbatches=2)


def unrolled(whole: Plan, layers: int = LAYERS) -> Plan:
    """Return the plan with a decision on every layer that says what holds there anyway, so that each is its own run."""
    cut = whole
    for layer in range(layers):
        cut = cut.shard(f"layers.{layer}.mlp.gate_proj", {"n": "tp"})
    return cut


def collectives(report: Report) -> Counter[tuple[object, ...]]:
    """Count collectives by all but the layers that they are in."""
    found: Counter[tuple[object, ...]] = Counter()
    for row in report.collectives:
        key = (
            row.phase, row.value.partition("@")[0], row.kind, row.axes, row.group_size, row.payload_bytes,
            row.wire_bytes, row.source, row.target, row.parameter, bool(row.scope),
        )  # fmt: skip
        found[key] += row.count
    return found


def test_a_cut_plan_has_a_run_a_layer() -> None:
    assert len(train(unrolled(plan())).scopes) == 1 + LAYERS
    assert len(train(plan()).scopes) == 2


def test_the_same_collectives() -> None:
    assert collectives(evaluate(unrolled(plan()))) == collectives(evaluate(plan()))


def test_the_same_cost() -> None:
    whole, cut = evaluate(plan()), evaluate(unrolled(plan()))
    assert cut.step_time.value == pytest.approx(whole.step_time.value, rel=1e-12)
    assert cut.interval == pytest.approx(whole.interval, rel=1e-12)
    assert cut.flops == whole.flops
    assert cut.mfu == pytest.approx(whole.mfu, rel=1e-12)
    memory = {child.name: child.value for child in whole.memory.children}
    assert {child.name: child.value for child in cut.memory.children} == pytest.approx(memory, rel=1e-12)


def test_runs_that_differ_add_up() -> None:
    """Two runs that are sharded differently cost what their layers cost in plans of their own, and the way between."""
    base = tiny_plan("dp:2,tp:2", ("data_parallel", "dp"), graph=tiny_graph(num_hidden_layers=LAYERS))
    row = base.shard("mlp.gate_proj|up_proj", {"n": "tp"}).shard("mlp.down_proj", {"k": "tp"})
    mixed = base.shard("layers.0-2.mlp.gate_proj|up_proj", {"n": "tp"}).shard("layers.0-2.mlp.down_proj", {"k": "tp"})

    def over_tp(plan: Plan) -> int:
        return sum(row.count for row in evaluate(plan).collectives if "tp" in row.axes)

    assert over_tp(mixed) * LAYERS == over_tp(row) * (LAYERS - 1)


@pytest.mark.parametrize("layers", [1, 2, 7, 126])
def test_collectives_in_layers_are_proportional_to_their_number(layers: int) -> None:
    one, many = collectives(evaluate(plan(1))), collectives(evaluate(plan(layers)))
    assert {k: n if not k[-1] else n * layers for k, n in one.items()} == dict(many)


def test_nothing_grows_with_the_number_of_layers() -> None:
    def sizes(layers: int) -> tuple[int, ...]:
        training = train(plan(layers))
        report = evaluate(plan(layers))
        items = sum(1 for tree in (report.step_time, report.memory) for _ in tree.walk())
        fanouts = sum(len(scope.fanouts) for scope in training.scopes)
        return len(training.scopes), fanouts, len(report.collectives), items

    assert sizes(126) == sizes(504)


def test_values_that_all_layers_read_are_brought_once() -> None:
    """The rotary table is resharded outside the loop, once for all layers and runs that want it alike."""
    cut = unrolled(plan()).shard("rotary_emb", {"seq": "tp"})
    for built in (plan().shard("rotary_emb", {"seq": "tp"}), cut):
        rows = [row for row in evaluate(built).collectives if "rotary_emb" in row.value]
        assert rows
        assert {(row.scope, row.count) for row in rows} == {("", built.decisions.microbatches)}
    assert len(rows) == 2  # cosines and sines


def test_microbatches_multiply() -> None:
    whole = plan()
    one = Plan(graph=whole.graph, decisions=replace(whole.decisions, microbatches=1, global_batch=4))
    counts = collectives(evaluate(one))
    assert {k: 2 * n for k, n in counts.items()} == dict(collectives(evaluate(whole)))
