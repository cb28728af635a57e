"""The sentence that says why a step is there follows from the layouts."""

import pytest

from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.redistribution import Planner, SearchOptions, reasons
from tests.redistribution import prices

MESH = DeviceMesh.of({"dp": 2, "tp": 4})

# source | target | objective | reasons, where bytes and one latency a collective are what it costs
ROWS = [
    ("[dp, tp]", "[dp, -]", "time", ["dim 1 is to be whole along tp: each rank gets the parts that the others hold"]),
    ("[tp, -]", "[-, tp]", "time", ["dim 0 gives up tp, which dim 1 needs: moved in one all-to-all"]),
    (
        "[-, -]", "[dp, tp]", "time",
        ["dim 1 is to be sharded over tp: each rank keeps its part of what it holds already",
         "dim 0 is to be sharded over dp: each rank keeps its part of what it holds already"],
    ),
    ("[-, -] +tp", "[-, tp]", "time",
     ["partial sums over tp are to be reduced and dim 1 sharded over it: one does both"]),
    ("[-, -] +tp", "[-, -]", "time", ["partial sums over tp are to be reduced, and every rank needs the result"]),
    ("[-, -] max(tp)", "[-, -]", "time",
     ["partial results (max) over tp are to be reduced, and every rank needs the result"]),
    (
        "[-, -] +tp", "[-, -]", "peak",
        ["the ranks along dp hold the same: each goes on with its part of dim 0, so that less is moved",
         "partial sums over tp are to be reduced: each rank does its part of dim 0",
         "dim 0 is to be whole along dp·tp: each rank gets the parts that the others hold"],
    ),
    ("[dp·tp, -]", "[tp·dp, -]", "time",
     ["the parts stay the same but belong to other ranks along dp·tp: each passes its whole part on"]),
    ("[dp, -]", "[-, -] +dp", "time",
     ["values are to be partial sums over dp: each rank puts its part of dim 0 among zeros"]),
    ("[dp, -]", "[dp, -] +tp", "time",
     ["values are to be partial sums over tp: the first rank along it keeps them, the others hold zeros"]),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "objective", "told"), ROWS)
def test_reasons(source: str, target: str, objective: str, told: list[str]) -> None:
    planner = Planner(MESH, prices.launches(MESH))
    moved = planner.plan(Layout.parse(source), Layout.parse(target), (64, 64), SearchOptions(objective=objective))
    assert list(reasons(moved)) == told


def test_every_step_has_one() -> None:
    planner = Planner(MESH, prices.nodes(MESH))
    for target in ("[-, tp·dp]", "[tp, -] +dp", "[dp·tp, -]", "[-, -]"):
        for source in ("[tp, dp]", "[dp, -] +tp", "[-, dp]"):
            moved = planner.plan(Layout.parse(source), Layout.parse(target), (64, 64))
            assert len(reasons(moved)) == len(moved.steps)
            assert all(
                axis in told for step, told in zip(moved.steps, reasons(moved), strict=True) for axis in step.axes
            )
