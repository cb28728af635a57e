"""Random plans of a model that has the operators on dims: parts, open sizes and several results go all the way.

Whatever is legal for every operator is legal for the model, up to what two results of one operator must have in common.
"""

from collections.abc import Callable
from random import Random

import pytest

from planner.plan import Plan
from planner.proof import Proof
from tests.tiny import tiny_plan
from tests.zoo import zoo_graph

from .random_plans import _decide, first_legal
from .test_presets import assert_proven

QUICK, ALL = 6, 200
MESHES = ("a:2,b:2", "a:4", "a:2,b:2", "a:3")


def zoo_plan(seed: int) -> tuple[Plan, dict[str, str]]:
    """Return the first plan of a seed that is legal, and its bundle."""
    random = Random(f"zoo/{seed}")

    def propose() -> Plan:
        plan = tiny_plan(MESHES[seed % len(MESHES)], graph=zoo_graph())
        share = random.choice((0.1, 0.4, 0.8))
        for node in plan.graph.root.nodes:
            if random.random() < share:
                plan = _decide(random, plan, node, "")
        return plan

    found = first_legal(propose, limit=50)
    return found.plan, found.files


@pytest.mark.parametrize("seed", range(QUICK))
def test_random_plan(prove_here: Callable[..., Proof], seed: int) -> None:
    plan, files = zoo_plan(seed)
    assert_proven(prove_here(plan, files, seed=seed % 2))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(QUICK, ALL))
def test_more_random_plans(prove_here: Callable[..., Proof], seed: int) -> None:
    test_random_plan(prove_here, seed)


def test_on_processes(prove: Callable[..., Proof]) -> None:
    """Once with the collectives of gloo, and with what a bundle of these operators carries."""
    plan, files = zoo_plan(2)
    assert {f"parallel/{name}.py" for name in ("indexing", "ordered", "reductions")} <= files.keys()
    assert_proven(prove(plan, files))
