"""Every edge of the search graph is a legal collective, and says the elements that it leaves."""

from hypothesis import given

from planner.collectives import COLLECTIVES
from planner.core.layout import Layout
from planner.redistribution.neighbours import moves, space, state_of
from tests.properties.strategies import Case, cases


@given(cases(reduces=("sum", "max")))
def test_moves_are_legal(case: Case) -> None:
    source, target = case.source.normal(case.mesh), case.target.normal(case.mesh)
    if source == target:
        return
    graph = space(source, target, case.shape, case.mesh)
    elements = source.local_elements(case.shape, case.mesh)
    found = list(moves(graph, state_of(source), elements, exchange=True))
    for move in found:
        after = Layout(*move.state)
        step = COLLECTIVES[move.kind].step(
            source,
            case.shape,
            case.mesh,
            axes=move.axes,
            dim=move.dim,
            to_dim=move.to_dim,
            target=after if move.kind == "exchange" else None,
        )
        assert (state_of(step.target), step.target_elements) == (move.state, move.elements)
    keys = [(m.kind, m.axes, m.dim, m.to_dim, m.state) for m in found]
    assert len(keys) == len(set(keys))
