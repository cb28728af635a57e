"""FLOP counts against torch's own counter, forward and backward."""

from math import prod

import pytest

pytest.importorskip("torch")
from torch.utils import flop_counter
from torch.utils.flop_counter import FlopCounterMode

from planner.core.graph import Node
from planner.ops import OPS

from .cases import CASES, MESH, REPLICATED, evaluate_on, expression, operands_of, sizes
from .ranks import parts_of

Shape = tuple[int, ...]


def shapes_of(name: str) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """Return the shapes of a case's operands and results."""
    return of_node(CASES[name])


def of_node(one: Node) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """Return the shapes of a node's operands and results."""
    count = len(one.rule.operands)
    dims = [tuple(prod(sizes(one)[f] for f in dim) for dim in t) for t in (*one.rule.operands, *one.rule.results)]
    return tuple(dims[:count]), tuple(dims[count:])


def ours(name: str) -> tuple[float, float]:
    one = CASES[name]
    op, shapes = OPS[one.op].of(dict(one.attributes)), shapes_of(name)
    return op.flops(*shapes), op.backward_flops(*shapes)


COUNTED = [
    n for n, one in CASES.items()
    if OPS[one.op].matmul and not one.op.endswith("attention") and one.rule.reductions
]  # fmt: skip
"""Products; torch counts none for one that sums nothing up."""


@pytest.mark.parametrize("name", COUNTED)
def test_products(name: str) -> None:
    one = CASES[name]
    operands = [x.requires_grad_() for x in operands_of(one)]
    with FlopCounterMode(display=False) as forward:
        (result,) = evaluate_on(expression(one), operands, MESH, 0)
    with FlopCounterMode(display=False) as backward:
        result.sum().backward()
    if dict(one.attributes).get("groups", 1) == 1:
        assert ours(name) == (forward.get_total_flops(), backward.get_total_flops())
    else:
        # Torch counts the weight's gradient as if there were one group; it takes as much work as forward.
        assert ours(name) == (forward.get_total_flops(), 2 * forward.get_total_flops())


def test_attention() -> None:
    """Torch counts the whole square of scores; a causal kernel does half of it."""
    (q, k, v), (result,) = shapes_of("attention")
    whole = flop_counter.sdpa_flop_count(q, k, v), flop_counter.sdpa_backward_flop_count(result, q, k, v)
    assert tuple(2 * flops for flops in ours("attention")) == whole


WRITTEN_OUT = [n for n, one in CASES.items() if one.op.endswith("attention") and parts_of(one, REPLICATED, MESH)[1:]]


@pytest.mark.parametrize("name", WRITTEN_OUT)
def test_attention_that_is_written_out(name: str) -> None:
    """It counts as its products, of the whole square."""
    parts = [part for part, _ in parts_of(CASES[name], REPLICATED, MESH) if part.op in {"attention_scores", "attend"}]
    found = [(OPS[part.op], of_node(part)) for part in parts]
    assert ours(name) == tuple(
        sum(count(*shapes) for count, shapes in counted)
        for counted in ([(op.flops, s) for op, s in found], [(op.backward_flops, s) for op, s in found])
    )


@pytest.mark.parametrize("first", [0, 2])
def test_attention_of_some_queries(first: int) -> None:
    """The last queries of a sequence see nearly all keys: what is counted is the largest rank's share."""
    batch, heads, keys, width, queries = 4, 4, 4, 4, 2
    q, kv = (batch, heads, queries, width), (batch, heads, keys, width)
    flops = OPS["attention"].flops((q, kv, kv), (q,))
    seen = sum(first + i + 0.5 for i in range(queries))
    exact = 4.0 * batch * heads * width * seen
    assert flops == exact if first + queries == keys else flops > exact


@pytest.mark.parametrize("name", CASES)
def test_counts_are_proportional_to_the_batch(name: str) -> None:
    """What a rank does of a batch that is cut in two is half of it."""
    one = CASES[name]
    if "batch" not in one.rule.factors:
        return
    shapes = shapes_of(name)
    tensors = (one.rule.operands, one.rule.results)
    halves = [
        tuple(
            tuple(n // 2 if dim == ("batch",) else n for n, dim in zip(shape, tensor, strict=True))
            for shape, tensor in zip(side, factors, strict=True)
        )
        for side, factors in zip(shapes, tensors, strict=True)
    ]
    for count in (OPS[one.op].flops, OPS[one.op].backward_flops):
        assert count(*halves) == pytest.approx(count(*shapes) / 2)
