"""Sets of elements as runs, against the elements listed."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.collectives.holdings import common_count, parts_of, spans
from planner.core.crossing import Holding
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from tests.collectives.elements import held
from tests.properties.strategies import layouts, meshes


@st.composite
def holdings(draw: st.DrawFn) -> Holding:
    mesh = draw(meshes())
    shape = draw(st.sampled_from([(12,), (3, 4), (2, 3, 2), (1, 12, 1), (6, 2)]))
    return Holding(mesh=mesh, shape=shape, layout=draw(layouts(mesh, len(shape), partial=False)))


@given(holdings(), holdings())
def test_one_span_of_all_dims(one: Holding, two: Holding) -> None:
    sets = []
    for holding in (one, two):
        parts = parts_of(holding, [tuple(range(len(holding.shape)))])
        assert sorted(rank for members in parts.members for rank in members) == list(range(holding.mesh.device_count))
        for position, members in enumerate(parts.members):
            (runs,) = parts.runs(position)
            listed = sorted(held(holding, members[0]))
            assert runs.elements().tolist() == listed
            assert runs.count == parts.elements(position) == len(listed)
            places = np.arange(14)
            assert runs.below(places).tolist() == [sum(x < place for x in listed) for place in places]
            assert all(held(holding, rank) == set(listed) and parts.of_rank[rank] == position for rank in members)
            # No two runs touch, so equal sets have equal runs.
            assert all(b - a > runs.length for a, b in zip(runs.starts[:-1], runs.starts[1:], strict=True))
        sets.append([(parts.runs(i)[0], held(holding, members[0])) for i, members in enumerate(parts.members)])
    for mine, my_elements in sets[0]:
        for theirs, their_elements in sets[1]:
            assert common_count(mine, theirs) == len(my_elements & their_elements)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ((4, 5), (4, 5), [((0,), (0,)), ((1,), (1,))]),
        ((8, 6, 5), (48, 5), [((0, 1), (0,)), ((2,), (1,))]),
        ((4, 3, 7), (3, 4, 7), [((0, 1), (0, 1)), ((2,), (2,))]),
        ((1, 6), (6,), [((0, 1), (0,))]),
        ((6, 1), (6,), [((0,), (0,)), ((1,), ())]),
    ],
)
def test_spans(before: tuple[int, ...], after: tuple[int, ...], found) -> None:
    assert list(spans(before, after)) == found
    for mine, theirs in found:
        assert prod(before[d] for d in mine) == prod(after[d] for d in theirs)


def test_too_many_runs_are_refused() -> None:
    mesh = DeviceMesh.parse("a:4")
    wide = Holding(mesh=mesh, shape=(1 << 21, 4), layout=Layout.parse("[-, a]"))
    with pytest.raises(LayoutError) as caught:
        parts_of(wide, [(0, 1)])
    assert caught.value.code == "handover.runs"
    assert sum(parts_of(wide, [(0,), (1,)]).elements(i) for i in range(4)) == 1 << 23
