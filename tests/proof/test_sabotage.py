"""A bundle with one collective removed, doubled or regrouped fails its proof, on its numbers alone.

`mutants.equivalent` lists every change that leaves all numbers as they are, with the reason; tests hold it complete.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random
from types import MappingProxyType

import pytest

from planner.compose import bundle, train
from planner.plan import Plan
from planner.proof import Proof

from .mutants import PLANS, UPDATED, WHOLE, Shapes, equivalent
from .random_plans import draw
from .sabotage import LOCAL, Sabotage, sabotages

QUICK_SHARE = 12


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
            found.append(
                pytest.param(
                    name, change, id=f"{name}-{number}-{change.change.split(':')[0].split('(')[0]}", marks=marks
                )
            )
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
    assert {change.change.split()[0] for change in found} == {"drop", "double", "over", "swap"}
    assert {change.place.split()[-1] for change in found} == {"forward", "backward"}
    assert len(found) > 100
    assert len({change.text for change in found}) == len(found)
    assert {change.kind for change in changes("block")} == {
        "AllGather", "AllReduce", "AllToAll", "Pad", "ReduceScatter", "Slice", "Zero",
    }  # fmt: skip
    assert {"Exchange", "ReduceParts"} <= {change.kind for change in changes("unequal")}
    assert {c.place.split()[-1] for name in UPDATED for c in changes(name)} == {"master", "reduce", "publish"}
