"""What arrives in a step, against values that are counted element by element on pretend ranks."""

from itertools import pairwise

import numpy as np
from hypothesis import given

from planner.compose import redistribute
from planner.core.collective import Step
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.simulate import arrivals, run
from tests.properties.strategies import Case, cases


@given(cases(partial=False))
def test_arrivals_are_the_elements_that_a_rank_had_not(case: Case) -> None:
    moved = redistribute(case.source, case.target, case.mesh, shape=case.shape)
    states = run(moved, case.mesh)
    for before, after in pairwise(states):
        assert after.step is not None
        for rank, boxes in enumerate(arrivals(after.step, case.shape, case.mesh)):
            found = [element for box in boxes for element in _labels(case.shape)[_index(box)].ravel()]
            new = set(after.world[rank].ravel()) - set(before.world[rank].ravel())
            assert sorted(found) == sorted(new)


def test_a_finished_sum_is_new_as_a_whole() -> None:
    mesh = DeviceMesh.parse("dp:2,tp:2")
    moved = redistribute("[dp, -] +tp", "[dp, tp]", mesh, shape=(4, 4))
    assert [step.kind for step in moved.steps] == ["reduce_scatter"]
    assert arrivals(moved.steps[0], (4, 4), mesh) == tuple((part,) for part in (
        ((0, 2), (0, 2)), ((0, 2), (2, 4)), ((2, 4), (0, 2)), ((2, 4), (2, 4)),
    ))  # fmt: skip


def test_what_is_dropped_or_empty_brings_nothing() -> None:
    mesh = DeviceMesh.parse("tp:4")
    whole, cut = Layout.parse("[-]"), Layout.parse("[tp]")
    step = Step(
        kind="slice",
        axes=("tp",),
        dim=0,
        shape=(3,),
        source=whole,
        target=cut,
        source_shape=(3,),
        target_shape=(1,),
        group_size=4,
    )
    assert arrivals(step, (3,), mesh) == ((), (), (), ())
    back = Step(
        kind="all_gather", axes=("tp",), dim=0, shape=(3,), source=cut, target=whole, source_shape=(1,),
        target_shape=(3,), group_size=4,
    )  # fmt: skip
    assert arrivals(back, (3,), mesh, limit=2) == ((((1, 3),),), (((0, 1),), ((2, 3),)))


def _labels(shape: tuple[int, ...]) -> np.ndarray:
    return np.arange(int(np.prod(shape))).reshape(shape)


def _index(box: tuple[tuple[int, int], ...]) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in box)
