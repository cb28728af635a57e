"""Counts that the shapes alone do not give come from the attributes of each node."""

from planner.compose import train
from planner.cost.work import model_flops, node_works
from planner.hardware import precision
from planner.ops import OPS
from tests.tiny import tiny_plan
from tests.zoo import WIDTH, zoo_graph


def test_einsum_is_counted_by_its_equation() -> None:
    """Scores `bsh,bth->bst` and their product with the stream, a multiply-add for each of b·s·t·h."""
    training = train(tiny_plan("a:1", graph=zoo_graph()))
    works = [work for work in node_works(training, precision("float64")) if work.node.op == "einsum"]
    points = 8 * 8 * 8 * WIDTH
    assert [work.op.flops(*work.shapes) for work in works] == [2.0 * points, 2.0 * points]
    assert [work.op.backward_flops(*work.shapes) for work in works] == [4.0 * points, 4.0 * points]
    # The whole model counts them so too: without the equation it would be less.
    assert OPS["einsum"].flops(*works[0].shapes) < 2.0 * points
    assert model_flops(training) > 2 * 6.0 * points
