"""Sizes and starts as they are written: numbers where they are the same on all ranks, the runtime's mesh elsewhere."""

import pytest

from planner.compose import bundle
from planner.core.chunk import chunk
from planner.core.graph import Node, Value
from planner.core.mesh import DeviceMesh
from planner.core.rule import ShardingRule
from planner.core.strategy import ShardStrategy
from planner.core.tensor import TensorMeta
from planner.exporters.explicit.local import local_of
from tests.tiny import tiny_graph, tiny_plan

MESH = DeviceMesh.parse("one:1,dp:2,tp:4,wide:8")
SYMBOLS = frozenset({("B", 4), ("S", 10)})
ROWS = Node(
    name="rows", op="add", operands=("x",), results=(Value(name="rows", meta=TensorMeta((12,))),), module="",
    rule=ShardingRule.parse("s (r e) -> s r e", shapes=((10, 12), (10, 6, 2)), sizes={"r": 6}),
)  # fmt: skip


@pytest.mark.parametrize(
    ("factors", "sizes", "start", "operand"),
    [
        ({}, {"s": 10, "r": 6, "e": 2}, {}, (10, 12)),
        ({"s": ("one",)}, {"s": 10, "r": 6, "e": 2}, {}, (10, 12)),
        ({"s": ("dp",), "r": ("one",)}, {"s": 5, "r": 6, "e": 2}, {"s": 'mesh.index("dp") * 5'}, (5, 12)),
        (
            {"s": ("tp", "one", "dp")},
            {"s": 'mesh.length(10, "tp", "dp")', "r": 6, "e": 2},
            {"s": 'mesh.start(10, "tp", "dp")'},
            ('mesh.length(10, "tp", "dp")', 12),
        ),
        # Of a merged dim, the length is that of the whole dim over the axes of all its factors.
        (
            {"r": ("wide",)},
            {"s": 10, "r": 'mesh.length(6, "wide")', "e": 2},
            {"r": 'mesh.start(6, "wide")'},
            (10, 'mesh.length(12, "wide")'),
        ),
    ],
)
def test_local_sizes(
    factors: dict[str, tuple[str, ...]], sizes: dict[str, object], start: dict[str, str], operand: tuple[object, ...]
) -> None:
    made = local_of(ROWS, ShardStrategy.of(factors), ("x",), SYMBOLS, MESH)
    assert dict(made.sizes) == sizes
    assert dict(made.start) == start
    assert made.operands == (operand,)
    assert dict(made.whole) == {"s": 10, "r": 6, "e": 2}


def test_the_mesh_at_run_time_cuts_as_the_plan_does() -> None:
    pytest.importorskip("torch")
    from tests.ops.cases import Place

    for axes in ((), ("dp",), ("tp", "dp"), ("wide", "one"), ("dp", "wide", "tp")):
        for size in (0, 1, 3, 10, 16, 64, 67):
            for rank in range(MESH.device_count):
                here, (start, stop) = Place(MESH, rank), chunk(size, axes, MESH, rank)
                assert here.chunk(size, *axes) == (start, stop)
                assert (here.start(size, *axes), here.length(size, *axes)) == (start, stop - start)


@pytest.mark.parametrize(
    ("seq", "line"),
    [
        (8, 'ops.rotary_table(2, 4, 10000.0, first=mesh.index("tp") * 2, device=mesh.device)'),
        (6, 'ops.rotary_table(mesh.length(6, "tp"), 4, 10000.0, first=mesh.start(6, "tp"), device=mesh.device)'),
    ],
)
def test_lines_ask_the_mesh_where_ranks_have_unequal_parts(seq: int, line: str) -> None:
    plan = tiny_plan("tp:4", ("megatron", "tp"), graph=tiny_graph(vocab_size=33, num_hidden_layers=1))
    plan = plan.batch(global_batch=8, seq=seq, microbatches=1).shard("rotary_emb", {"seq": "tp"})
    text = bundle(plan)["model.py"]
    assert line in text
    assert 'first=mesh.start(33, "tp"))' in text
    assert "unflatten(2, (2, 4))" in text
