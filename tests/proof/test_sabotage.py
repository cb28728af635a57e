"""A bundle with one collective removed, doubled or regrouped fails its proof, on its numbers alone.

Semantics names true equivalents: an axis that shards a dim of size 1, empty shards, and a Partial that came from R→P.
`equivalent` lists every change that leaves all numbers as they are, with the reason; the tests hold it complete.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from functools import cache
from random import Random
from types import MappingProxyType

import pytest

from planner.compose import bundle, train
from planner.core.layout import Layout
from planner.plan import Plan
from planner.proof import Proof
from tests.tiny import tiny_graph, tiny_plan, with_dropout

from .random_plans import draw
from .sabotage import LOCAL, Sabotage, sabotages

QUICK_SHARE = 12
Shapes = Mapping[str, tuple[int, ...]]


def _states(data: str) -> Plan:
    """Tensor and sequence parallelism with a way of data parallelism, in one layer with biases."""
    graph = tiny_graph("llama-biased", num_hidden_layers=1)
    presets = ((data, "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
    return tiny_plan("dp:2,tp:2", *presets, graph=graph)


def _block() -> Plan:
    """Grouped heads, biases, dropout, tied weights, kept Partials, a norm over its width, attention over queries."""
    graph = with_dropout(tiny_graph("llama-biased", tied=True, num_hidden_layers=1, num_key_value_heads=2))
    presets = (("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
    plan = tiny_plan("dp:2,tp:2", *presets, graph=graph, microbatches=2)
    return (
        plan.shard("input_layernorm", {"seq": (), "h": ("tp",)})
        .shard("attention", {"g": (), "r": (), "seq": ("tp",)})
        .shard("self_attn.dropout", {"seq": ()})
        .keep("self_attn.dropout", "tp", (0,))
        .shard("residual_attention", {"seq": ()})
        .keep("residual_attention", "tp", (0, 1))
    )


def _unequal() -> Plan:
    """Sizes that no axis divides; with three sequences over four ranks, one has none, and of 7 features one has one."""
    graph = with_dropout(
        tiny_graph(
            "llama-biased", tied=True, num_hidden_layers=1, num_key_value_heads=2, vocab_size=33, intermediate_size=7,
            hidden_size=30,
        )
    )  # fmt: skip
    presets = (("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
    plan = tiny_plan("dp:4,tp:2", *presets, graph=graph)
    return plan.batch(global_batch=6, seq=7, microbatches=2)


PLANS: dict[str, Callable[[], Plan]] = {
    "data_parallel": lambda: _states("data_parallel"),
    "zero3": lambda: _states("zero3"),
    "block": _block,
    "unequal": _unequal,
}
WHOLE = {"block", "unequal"}
"""Plans of which steps are dropped and doubled only."""
UPDATED: dict[str, Callable[[], Plan]] = {
    "zero1": lambda: _states("zero1"),
    "zero2, deferred": lambda: _states("zero2").store("*", of="gradient", deferred=True),
    "elsewhere": lambda: _states("zero2").store("*_proj.weight", of="optimizer", layout="[-, dp]"),
}
"""Plans whose updates move something."""


def equivalent(change: Sabotage, shapes: Shapes = MappingProxyType({})) -> str:
    """Return why a change leaves every number as it is; empty if it does not.

    Parameters
    ----------
    shapes
        Global shapes of values, where a dim may be of size 1.
    """
    if change.change == "double" and change.kind in {"Exchange", "Slice"} and set(_cut(change, shapes)) == {1}:
        return (
            "of an index that is alone, the first rank keeps it or sends it again, and the others have nothing to cut"
        )
    if change.change.startswith("swap") and _commutes(change):
        return "the two steps follow each other, over different axes and not on one dim: their order does not matter"
    if change.kind == "Zero" and change.change == "double":
        return "zeros stay zeros, and who keeps its values keeps them twice"
    if change.kind == "AllReduce":
        if change.change == f"over {'·'.join(reversed(change.axes))}:":
            return "a sum does not depend on the order of its group"
        if "max" in change.step and change.change == "double":
            return "the maximum of equal numbers is that number"
        if "max" in change.step and change.change == "over dp·tp:":
            return "log Σ exp(x − m) + m is the same for every m that the vocabulary's shards share"
    return ""


def _commutes(change: Sabotage) -> bool:
    """Return whether a swap is of neighbours of one list that act on different axes, and not on one dim."""
    (position, index, (taken,)), (there, at, (step,)) = change.edits
    one, other = ({k.arg: ast.literal_eval(k.value) for k in each.keywords} for each in (step, taken))  # type: ignore[attr-defined]
    if position != there or at != index + 1 or "axes" not in one or "axes" not in other:
        return False
    apart = "dim" not in one or "dim" not in other or one["dim"] != other["dim"]
    return apart and set(one["axes"]).isdisjoint(other["axes"])


def _cut(change: Sabotage, shapes: Shapes) -> list[int]:
    """Return the sizes of the dims that a slice cuts or an exchange moves."""
    call = ast.parse(change.step, mode="eval").body
    assert isinstance(call, ast.Call)
    given = {k.arg: ast.literal_eval(k.value) for k in call.keywords}
    if change.kind == "Slice":
        return [shapes[change.value][given["dim"]]] if change.value in shapes else []
    source, target = Layout.parse(given["source"]), Layout.parse(given["target"])
    return [n for n, a, b in zip(given["shape"], source.dims, target.dims, strict=True) if a != b]


@cache
def changes(name: str) -> tuple[Sabotage, ...]:
    """Return every change of a bundle; in some and in updates, what is dropped or doubled."""
    plan = (PLANS | UPDATED)[name]()
    found = sabotages(bundle(plan)["model.py"], plan.decisions.mesh.names)
    if name in UPDATED:
        return tuple(c for c in found if c.place.split()[-1] in {"master", "reduce", "publish"} and whole(c))
    return tuple(c for c in found if name not in WHOLE or whole(c))


def whole(change: Sabotage) -> bool:
    return change.change in {"drop", "double"}


def cases(plans: dict[str, Callable[[], Plan]]) -> list[object]:
    """Return every change; one in twelve is quick, and every one that is equivalent."""
    found = []
    for name in plans:
        for number, change in enumerate(changes(name)):
            quick = number % QUICK_SHARE == 0 or (equivalent(change) and name in WHOLE)
            marks = () if quick else pytest.mark.slow
            found.append(pytest.param(name, change, id=f"{name}-{number}-{change.change.strip(':')}", marks=marks))
    return found


@pytest.mark.parametrize(("name", "change"), cases(PLANS))
def test_sabotage_is_found(prove_here: Callable[..., Proof], name: str, change: Sabotage) -> None:
    _assert_found(prove_here, PLANS[name](), change)


@pytest.mark.parametrize(("name", "change"), cases(UPDATED))
def test_sabotage_of_an_update_is_found(prove_here: Callable[..., Proof], name: str, change: Sabotage) -> None:
    _assert_found(prove_here, UPDATED[name](), change, kind="training", steps=2)


@pytest.mark.parametrize("name", PLANS)
def test_sabotage_is_found_on_processes(prove: Callable[..., Proof], name: str) -> None:
    """What threads find, processes find."""
    change = next(c for c in changes(name) if c.change == "drop" and c.place.endswith("backward"))
    _assert_found(prove, PLANS[name](), change)


@pytest.mark.parametrize("seed", [s if s < 3 else pytest.param(s, marks=pytest.mark.slow) for s in range(60)])
def test_sabotage_of_random_plans_is_found(prove_here: Callable[..., Proof], seed: int) -> None:
    """Five drops and doublings of a random plan."""
    found = draw(seed, 4)
    all_changes = sabotages(found.files["model.py"], found.plan.decisions.mesh.names)
    moving = [c for c in all_changes if whole(c) and c.place.split()[-1] in {"forward", "backward"}]
    shapes = {f.value: f.shape for scope in train(found.plan).scopes for f in scope.fanouts}
    for change in Random(seed).sample(moving, min(5, len(moving))):
        _assert_found(prove_here, found.plan, change, shapes, seed=seed % 4)


def _assert_found(
    prove: Callable[..., Proof], sound: Plan, change: Sabotage, shapes: Shapes = MappingProxyType({}), **options: object
) -> None:  # fmt: skip
    proof = prove(sound, bundle(sound) | {"model.py": change.text}, **options)
    numbers = [row.name for row in proof.rows if not row.ok]
    if reason := equivalent(change, shapes):
        assert not numbers, f"{change} is not equivalent: {reason}"
        # What is communicated is counted too; the rest computes the same by other means.
        assert proof.ok == (change.kind in LOCAL), str(change)
    else:
        assert numbers or proof.failures, str(change)
        assert not proof.ok, str(change)


def test_every_kind_of_call_is_sabotaged() -> None:
    found = changes("data_parallel")
    assert {change.kind for change in found} == {"AllGather", "AllReduce", "ReduceScatter", "Zero"}
    assert {change.change.split()[0] for change in found} == {"drop", "double", "over"}
    assert {change.place.split()[-1] for change in found} == {"forward", "backward"}
    assert len(found) > 100
    assert len({change.text for change in found}) == len(found)
    assert {change.kind for change in changes("block")} == {
        "AllGather", "AllReduce", "AllToAll", "Pad", "ReduceScatter", "Slice", "Zero",
    }  # fmt: skip
    assert {"Exchange", "ReduceParts"} <= {change.kind for change in changes("unequal")}
    assert {c.place.split()[-1] for name in UPDATED for c in changes(name)} == {"master", "reduce", "publish"}
