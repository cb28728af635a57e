"""Cells of tensors: the sizes of a dim over all ranks, on the fullest and on the emptiest."""

import numpy as np

from planner.compose import view
from planner.core.layout import Layout
from planner.core.view import Cell
from planner.plan import Plan
from tests.properties.strategies import shard
from tests.tiny import tiny_graph, tiny_plan


def cells(plan: Plan, node: str, slot: str) -> tuple[Cell, ...]:
    drawn, _ = view(plan)
    tensors = next((*n.operands, *n.results) for n in drawn.nodes if n.label == node)
    return next(tensor.cells for tensor in tensors if tensor.slot == slot)


def sizes(cell: Cell) -> tuple[int, int, int]:
    return cell.total, cell.least, cell.local


def test_equal_parts_have_one_size() -> None:
    plan = tiny_plan("dp:2,tp:2", ("data_parallel", "dp"), ("megatron", "tp"))
    assert [sizes(cell) for cell in cells(plan, "q_proj", "x")] == [(8, 4, 4), (8, 8, 8), (32, 32, 32)]


def test_unequal_parts_have_a_least_and_a_largest() -> None:
    plan = tiny_plan("dp:3", ("data_parallel", "dp"), graph=tiny_graph(hidden_size=30))
    batch, seq, width = cells(plan.shard("q_proj", {"batch": (), "k": "dp"}), "q_proj", "x")
    assert sizes(batch) == (8, 8, 8)
    assert sizes(seq) == (8, 8, 8)
    assert sizes(width) == (30, 10, 10)
    batch, *_ = cells(plan, "q_proj", "x")
    assert sizes(batch) == (8, 2, 3)


def test_a_rank_may_hold_nothing_as_the_cut_says() -> None:
    plan = tiny_plan("a:2,b:4").batch(global_batch=8, seq=10, microbatches=1).shard("q_proj", {"seq": ("a", "b")})
    _, seq, _ = cells(plan, "q_proj", "x")
    held = [len(shard(np.arange(10), Layout((("a", "b"),)), plan.decisions.mesh, rank)) for rank in range(8)]
    assert sizes(seq) == (10, min(held), max(held)) == (10, 0, 2)
