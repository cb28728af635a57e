"""A bundle with one collective removed, doubled or regrouped fails its proof, on its numbers alone.

Semantics.md names true equivalents: an axis that shards a dim of size 1, empty shards, and a Partial that came from
R→P. None of these is in the bundles here; the changes below are equal for reasons of arithmetic.
"""

from collections.abc import Callable

import pytest

from planner.compose import bundle
from planner.plan import Plan
from planner.proof import Proof
from tests.tiny import tiny_graph, tiny_plan

from .sabotage import LOCAL, Sabotage, sabotages

QUICK_SHARE = 9


def plan(data: str) -> Plan:
    graph = tiny_graph("llama-biased", num_hidden_layers=1)
    presets = ((data, "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))
    return tiny_plan("dp:2,tp:2", *presets, graph=graph)


def equivalent(change: Sabotage) -> str:
    """Return why a change leaves every number as it is; empty if it does not."""
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


def cases() -> list[object]:
    """Return every change of two bundles; one in nine of the first is quick, and every one that is equivalent."""
    found = []
    for data in ("data_parallel", "zero3"):
        files = bundle(plan(data))
        for number, change in enumerate(sabotages(files["model.py"], ("dp", "tp"))):
            quick = data == "data_parallel" and (number % QUICK_SHARE == 0 or equivalent(change))
            marks = () if quick else pytest.mark.slow
            found.append(pytest.param(data, change, id=f"{data}-{number}-{change.change.strip(':')}", marks=marks))
    return found


@pytest.mark.parametrize(("data", "change"), cases())
def test_sabotage_is_found(prove: Callable[..., Proof], data: str, change: Sabotage) -> None:
    sound = plan(data)
    proof = prove(sound, bundle(sound) | {"model.py": change.text})
    numbers = [row.name for row in proof.rows if not row.ok]
    if reason := equivalent(change):
        assert not numbers, f"{change} is not equivalent: {reason}"
        # What is communicated is counted too; the rest computes the same by other means.
        assert proof.ok == (change.kind in LOCAL), str(change)
    else:
        assert numbers or proof.failures, str(change)
        assert not proof.ok, str(change)


def test_every_kind_of_call_is_sabotaged() -> None:
    changes = list(sabotages(bundle(plan("data_parallel"))["model.py"], ("dp", "tp")))
    assert {change.kind for change in changes} == {"AllGather", "AllReduce", "ReduceScatter", "Zero"}
    assert {change.change.split()[0] for change in changes} == {"drop", "double", "over"}
    assert {change.place.split()[-1] for change in changes} == {"forward", "backward"}
    assert len(changes) > 100
    assert len({change.text for change in changes}) == len(changes)
