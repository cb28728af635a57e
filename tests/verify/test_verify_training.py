"""Training graphs that a stage got wrong, one invariant at a time."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.compose import train
from planner.core.assignment import AssignedNode, Fanout, TrainingGraph, Update
from planner.core.bucket import Bucket
from planner.core.layout import Layout
from planner.core.strategy import ShardStrategy
from planner.verify import verify_training
from tests.proof.random_plans import draw
from tests.tiny import tiny_graph, tiny_plan

Change = Callable[[Fanout], Fanout]


@pytest.fixture(scope="module")
def sound() -> TrainingGraph:
    presets = (("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
    return train(tiny_plan("dp:2,tp:2", *presets, graph=tiny_graph("llama-biased")))


def broken(training: TrainingGraph, value: str, change: Change) -> TrainingGraph:
    """Return the graph with one value's fan-out changed."""
    found = [f.value for scope in training.scopes for f in scope.fanouts if f.value.endswith(value)]
    assert len(found) == 1, found
    scopes = tuple(
        replace(scope, fanouts=tuple(change(f) if f.value == found[0] else f for f in scope.fanouts))
        for scope in training.scopes
    )
    return replace(training, scopes=scopes)


def misassigned(training: TrainingGraph, name: str, change: Callable[[AssignedNode], AssignedNode]) -> TrainingGraph:
    """Return the graph with one operator's assignment changed."""
    scopes = tuple(
        replace(
            scope,
            assembly=replace(
                scope.assembly,
                nodes=tuple(change(n) if n.node.name.endswith(name) else n for n in scope.assembly.nodes),
            ),
        )
        for scope in training.scopes
    )
    return replace(training, scopes=scopes)


def codes(training: TrainingGraph) -> list[str]:
    return [finding.code for finding in verify_training(training)]


def test_sound_graphs(sound: TrainingGraph) -> None:
    assert verify_training(sound) == ()
    for seed in range(5):
        assert verify_training(train(draw(seed, 8).plan)) == ()


def without_step(side: str) -> Change:
    def change(fanout: Fanout) -> Fanout:
        first, *rest = getattr(fanout, side)
        moved = first.redistribution
        assert moved.steps
        short = replace(first, redistribution=replace(moved, steps=moved.steps[1:]))
        return replace(fanout, **{side: (short, *rest)})

    return change


def unserved(side: str) -> Change:
    return lambda fanout: replace(fanout, **{side: getattr(fanout, side)[1:]})


def to_another_layout(side: str) -> Change:
    def change(fanout: Fanout) -> Fanout:
        first, *rest = getattr(fanout, side)
        whole = Layout.replicated(len(fanout.shape))
        moved = replace(first.redistribution, target=whole.with_dim(0, ("tp", "dp")))
        return replace(fanout, **{side: (replace(first, redistribution=moved), *rest)})

    return change


def read_twice(fanout: Fanout) -> Fanout:
    first, *rest = fanout.forward
    return replace(fanout, forward=(replace(first, readers=(*first.readers, first.readers[0])), *rest))


def from_another_layout(fanout: Fanout) -> Fanout:
    return replace(fanout, source=Layout.replicated(len(fanout.shape)).with_dim(0, ("tp", "dp")))


def other_raw(fanout: Fanout) -> Fanout:
    first, *rest = fanout.readers
    return replace(fanout, readers=(replace(first, raw=Layout.replicated(len(fanout.shape))), *rest))


def other_gradient(fanout: Fanout) -> Fanout:
    return replace(fanout, gradient=Layout.replicated(len(fanout.shape)).with_dim(0, ("tp", "dp")))


@pytest.mark.parametrize(
    ("value", "change", "code"),
    [
        ("input_layernorm", without_step("forward"), "verify.fold"),
        ("input_layernorm", without_step("backward"), "verify.fold"),
        ("o_proj", without_step("forward"), "verify.fold"),
        ("gate_proj.weight", without_step("backward"), "verify.fold"),
        ("input_layernorm", unserved("forward"), "verify.reader-not-served"),
        ("input_layernorm", read_twice, "verify.reader-not-served"),
        ("input_layernorm", unserved("backward"), "verify.gradient-missing"),
        ("gate_proj.weight", unserved("backward"), "verify.parameter-without-gradient"),
        ("input_layernorm", to_another_layout("forward"), "verify.reader-layout"),
        ("input_layernorm", to_another_layout("backward"), "verify.gradient-layout"),
        ("input_layernorm", from_another_layout, "verify.value-layout"),
        ("input_layernorm", other_raw, "verify.raw-layout"),
        ("input_layernorm", other_gradient, "verify.gradient-layout"),
    ],
)
def test_a_broken_fan_out_is_found(sound: TrainingGraph, value: str, change: Change, code: str) -> None:
    findings = verify_training(broken(sound, value, change))
    assert code in {finding.code for finding in findings}
    assert all(finding.subject.endswith(value) and value in finding.message for finding in findings)


def test_a_step_from_another_layout_is_found(sound: TrainingGraph) -> None:
    def change(fanout: Fanout) -> Fanout:
        (first,) = fanout.forward
        (step,) = first.redistribution.steps
        moved = replace(first.redistribution, steps=(replace(step, source=Layout.replicated(3)),))
        return replace(fanout, forward=(replace(first, redistribution=moved),))

    assert "verify.step-source" in codes(broken(sound, "input_layernorm", change))


def test_an_illegal_strategy_is_found(sound: TrainingGraph) -> None:
    sharded = misassigned(sound, "rotary_q", lambda n: replace(n, strategy=ShardStrategy.of({"e": ("tp",)})))
    assert codes(sharded) == ["rule.factor-blocked"]


def test_layouts_that_do_not_follow_from_the_strategy_are_found(sound: TrainingGraph) -> None:
    other = misassigned(sound, "up_proj", lambda n: replace(n, results=(Layout.replicated(3),)))
    assert codes(other) == ["verify.operator-layout"]


def updated(training: TrainingGraph, change: Callable[[Update], Update | None]) -> TrainingGraph:
    """Return the graph with the update of one parameter changed, or left out."""

    def one(update: Update) -> tuple[Update, ...]:
        changed = change(update) if update.parameter.endswith("gate_proj.weight") else update
        return (changed,) if changed else ()

    scopes = tuple(replace(s, updates=tuple(u for update in s.updates for u in one(update))) for s in training.scopes)
    return replace(training, scopes=scopes)


@pytest.mark.parametrize(
    "change",
    [
        lambda b: replace(b, members=(*b.members, b.members[0])),
        lambda b: replace(b, members=(replace(b.members[0], way=1), *b.members[1:])),
        lambda b: replace(b, deferred=True),
        lambda b: replace(b, members=(replace(b.members[0], parameter="model.none"), *b.members[1:])),
        lambda b: replace(
            b,
            members=(
                b.members[0],
                replace(b.members[1], moved=replace(b.members[1].moved, steps=())),
                *b.members[2:],
            ),
        ),
    ],
    ids=["twice", "another way", "another time", "nobody", "another collective"],
)
def test_a_broken_bucket_is_found(change: Callable[[Bucket], Bucket]) -> None:
    plan = tiny_plan("dp:4", ("data_parallel", "dp"), graph=tiny_graph()).gradients(fusion="auto")
    training = train(plan)
    assert verify_training(training) == ()
    first, second, *rest = training.buckets
    found = verify_training(replace(training, buckets=(first, change(second), *rest)))
    assert {finding.code for finding in found} == {"verify.bucket"}


def test_a_broken_update_is_found() -> None:
    zero = train(tiny_plan("dp:2,tp:2", ("zero1", "dp"), ("megatron", "tp")))
    assert verify_training(zero) == ()
    assert codes(updated(zero, lambda u: None)) == ["verify.update-missing"]
    assert codes(updated(zero, lambda u: replace(u, values=replace(u.values, steps=())))) == ["verify.fold"]
    assert codes(updated(zero, lambda u: replace(u, gradient=u.values))) == ["verify.update-layout"]
    assert codes(updated(zero, lambda u: replace(u, parameter="other"))) == ["verify.update-missing"] * 2
