"""Memory and computation of unequal parts: those of the rank that has most, found by going over all ranks."""

from math import prod

import pytest
from tiny_model import LAYERS, WIDTH, training_graph

from planner.core.mesh import DeviceMesh
from planner.core.plan import Decisions, FactorDecision, ParameterDecision
from planner.core.report import CostItem
from planner.cost import evaluate, price
from planner.cost.work import node_works
from planner.hardware import PRECISIONS, cluster

H100, BF16 = cluster("3x5-h100-sxm"), PRECISIONS["bf16"]
DECISIONS = Decisions(
    cluster="3x5-h100-sxm", mesh=DeviceMesh.of({"dp": 3, "tp": 5}), global_batch=4, seq=8,
    factors=(
        FactorDecision(target="embed", factor="batch", axes=("dp",)),
        FactorDecision(target="embed", factor="vocab", axes=("tp",)),
        FactorDecision(target="layers.*.up", factor="n", axes=("tp",)),
        FactorDecision(target="layers.*.down", factor="k", axes=("tp",)),
        FactorDecision(target="head", factor="n", axes=("tp",)),
    ),
    parameters=(ParameterDecision(target="*", axes=("dp",), regather=True),),
)  # fmt: skip


def test_no_rank_holds_more_than_is_counted_and_one_holds_as_much():
    training = training_graph(DECISIONS)
    found = price(training, 1, BF16, H100).memory
    mesh, symbols = training.assignment.mesh, training.assignment.symbols
    ranks = range(mesh.device_count)

    def held(kind: str, rank: int) -> int:
        return sum(
            scope.assembly.count * prod(getattr(p, kind).shape_of(p.parameter.meta.concrete(symbols), mesh, rank))
            for scope in training.scopes
            for p in scope.assembly.parameters
        )

    assert found["parameters"] == 2 * max(held("storage", rank) for rank in ranks)
    assert found["gradients"] == 2 * max(held("gradient", rank) for rank in ranks)
    assert found["optimizer state"] == 12 * max(held("optimizer", rank) for rank in ranks)
    assert min(held("storage", rank) for rank in ranks) < max(held("storage", rank) for rank in ranks)


def test_activations_are_those_of_the_fullest_rank():
    """Tokens of the batch's largest part, 2 of 4; hidden values of the width's largest part, 7 of 32."""
    found = price(training_graph(DECISIONS), 1, BF16, H100).memory
    tokens = 2 * 8
    layer = tokens * WIDTH * 2 + tokens * 7 * 2
    assert found["saved activations"] == LAYERS * layer + tokens * 8 + tokens * WIDTH * 2


def test_flops_are_those_of_the_busiest_rank():
    works = {work.node.name: work for work in node_works(training_graph(DECISIONS), BF16)}
    # Two of four sequences of eight tokens; seven of 32 hidden; 13 of 64 words.
    tokens = 2 * 8
    assert works["layers.*.up"].op.flops(*works["layers.*.up"].shapes) == 2 * tokens * WIDTH * 7
    assert works["layers.*.down"].op.flops(*works["layers.*.down"].shapes) == 2 * tokens * WIDTH * 7
    assert works["head"].op.flops(*works["head"].shapes) == 2 * tokens * WIDTH * 13


def leaves(item: CostItem) -> list[CostItem]:
    return [leaf for child in item.children for leaf in leaves(child)] if item.children else [item]


@pytest.mark.parametrize(("batch", "said"), [(4, True), (6, False)])
def test_formulas_say_where_the_largest_part_is_counted(batch: int, said: bool):
    mesh = DeviceMesh.of({"dp": 3})
    decisions = Decisions(
        cluster="1x3-h100-sxm", mesh=mesh, global_batch=batch, seq=8,
        factors=(FactorDecision(target="embed", factor="batch", axes=("dp",)),),
    )  # fmt: skip
    report = evaluate(training_graph(decisions), decisions, cluster("1x3-h100-sxm"))
    formulas = [leaf.formula for leaf in (*leaves(report.memory), *leaves(report.step_time))]
    assert any("largest part" in formula for formula in formulas) == said
    found = [d for d in report.diagnostics if d.code == "plan.uneven"]
    assert len(found) == int(said)
