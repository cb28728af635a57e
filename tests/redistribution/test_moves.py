"""Every edge of the search graph is a legal collective, and says the layout and the elements that it leads to."""

from hypothesis import given

from planner.redistribution.frame import frame
from planner.redistribution.moves import moves
from planner.redistribution.prices import step
from tests.properties.strategies import Case, cases


@given(cases(reduces=("sum", "max")))
def test_moves_are_legal(case: Case) -> None:
    source, target = case.source.normal(case.mesh), case.target.normal(case.mesh)
    inner = frame(source, target, case.shape, case.mesh)
    assert (inner.layout(inner.source), inner.layout(inner.target)) == (source, target)
    found = list(moves(inner.rules, inner.source))
    for move in found:
        after = step(inner, case.mesh, source, move)
        assert after.target == inner.layout(move.state)
    keys = [(m.kind, m.axes, m.dim, m.to_dim, m.state) for m in found]
    assert len(keys) == len(set(keys))
