"""Decisions on where parameters lie: a place alone leaves layouts, nothing at all takes them back, and none pile up."""

from __future__ import annotations

import pytest

from planner.compose import train
from planner.core.assignment import ParameterLayout
from planner.plan import Plan
from tests.tiny import tiny_plan


def zero3() -> Plan:
    return tiny_plan("dp:2", ("zero3", "dp"))


def placed(plan: Plan, name: str = "q_proj.weight") -> ParameterLayout:
    (found,) = (
        p for a in train(plan).assignment.assemblies for p in a.parameters if p.parameter.name.endswith(name)
    )  # fmt: skip
    return found


def test_to_the_host_and_back_leaves_the_layout_and_what_is_fetched_again() -> None:
    before = placed(zero3())
    assert (str(before.storage), before.regather) == ("[dp, -]", True)
    away = zero3().store("*", place="host")
    assert (placed(away).storage, placed(away).place) == (before.storage, "host")
    # Of a part alone: the decision for the device stays, since the other still says host.
    part = away.store("q_proj", place="device")
    assert placed(part) == before
    assert placed(part, "k_proj.weight").place == "host"
    back = away.store("*", place="device")
    assert placed(back) == before
    assert back == zero3()


def test_nothing_at_all_takes_back_what_was_said_of_the_layout() -> None:
    plan = zero3().store("*", of="optimizer", place="host")
    found = placed(plan.store("q_proj.weight"))
    assert (str(found.storage), found.regather, found.optimizer_place) == ("[-, -]", False, "host")
    assert placed(plan.store("q_proj.weight"), "k_proj.weight") == placed(plan, "k_proj.weight")
    again = plan.store("q_proj.weight").store("q_proj.weight", axes=("dp",))
    assert str(placed(again).storage) == "[dp, -]"
    # The gradient follows the storage again where its own layout is taken back.
    apart = plan.store("q_proj", of="gradient", layout="[-, dp]", deferred=True)
    assert str(placed(apart).gradient) == "[-, dp]"
    assert placed(apart.store("q_proj", of="gradient")) == placed(plan)


def test_decisions_that_nothing_is_left_of_are_gone() -> None:
    plan = tiny_plan("dp:2")
    assert plan.store("q_proj", place="device") == plan
    assert plan.store("q_proj") == plan
    assert plan.store("q_proj", axes=("dp",)).store("q_proj") == plan
    there = plan.store("q_proj", place="host").store("k_proj", of="optimizer", place="host")
    assert len(there.store("q_proj", place="host").decisions.parameters) == 2
    assert [d.target for d in there.store("*", place="host").decisions.parameters] == ["k_proj", "*"]
    # A decision with more than a place is not given up for one.
    both = plan.store("q_proj", axes=("dp",), place="host").store("*", place="device")
    assert [d.target for d in both.decisions.parameters] == ["q_proj", "*"]
    assert (placed(both).place, str(placed(both).storage)) == ("device", "[dp, -]")
    kept = plan.store("q_proj", axes=("dp",), place="host").store("q_proj")
    assert (placed(kept).place, str(placed(kept).storage)) == ("host", "[-, -]")


def test_forgetting_names_a_target_and_a_state() -> None:
    plan = tiny_plan("dp:2").store("q_proj", axes=("dp",)).store("q_proj", of="optimizer", place="host")
    assert [d.of for d in plan.unstore("q_proj").decisions.parameters] == ["optimizer"]
    assert [d.of for d in plan.unstore("q_proj", of="optimizer").decisions.parameters] == ["storage"]
    assert plan.unstore("k_proj") == plan


def test_an_axis_that_goes_takes_no_other_decision_with_it() -> None:
    plan = tiny_plan("a:2,b:2").store("*", axes=("a",)).store("q_proj", axes=("b",)).store("k_proj")
    moved = plan.on(cluster="1x2-h100-sxm", mesh={"a": 2})
    assert [(d.target, d.axes) for d in moved.decisions.parameters] == [("*", ("a",)), ("k_proj", ())]
    assert str(placed(moved).storage) == "[a, -]"
    assert str(placed(moved, "k_proj.weight").storage) == "[-, -]"


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ("layers.*", "self_attn", 2),
        ("mlp", "self_attn", 1),
        ("layers.0", "layers.1.mlp", 1),
        ("layers.0", "layers.0.mlp", 2),
    ],
)
def test_what_nothing_named_need_not_be_taken_out(first: str, second: str, left: int) -> None:
    plan = tiny_plan("dp:2").recompute(first).recompute(second, again=False)
    assert [d.target for d in plan.decisions.recompute] == [first, second][:left]
    none = tiny_plan("dp:2").recompute(second, again=False)
    assert none.decisions.recompute == ()
