"""MindSpore's operators as rules, and a strategy placed on one."""

from math import prod
from typing import Any

from planner.core.rule import ShardingRule
from planner.core.symbol import evaluate
from planner.surfaces import Placed, place

Shape = tuple[int, ...]


def matmul(x: Shape, w: Shape, *, transposed: bool = False) -> ShardingRule:
    """MatMul and BatchMatMul; leading dims of the shorter operand are missing."""
    rank = max(len(x), len(w))
    batch = [f"b{i}" for i in range(rank - 2)]
    left, right = (batch[rank - len(shape) :] for shape in (x, w))
    inner, n = (w[-1], w[-2]) if transposed else (w[-2], w[-1])
    assert inner == x[-1]
    lead = x[:-2] if len(x) == rank else w[:-2]
    line = f"{' '.join(left)} m k, {' '.join(right)} {'n k' if transposed else 'k n'} -> {' '.join(batch)} m n"
    return ShardingRule.parse(line, shapes=(x, w, (*lead, x[-2], n)), names=("x", "w"), terms="x*w")


def elementwise(*shapes: Shape) -> ShardingRule:
    """An operator on operands of equal rank; dims of size 1 are broadcast."""
    rank = len(shapes[0])
    whole = tuple(max(shape[i] for shape in shapes) for i in range(rank))
    tensors = [
        " ".join(f"d{i}" if size == whole[i] else f"one{j}{i}" for i, size in enumerate(shape))
        for j, shape in enumerate(shapes)
    ]
    result = " ".join(f"d{i}" for i in range(rank))
    return ShardingRule.parse(f"{', '.join(tensors)} -> {result}", shapes=(*shapes, whole))


def conv2d(x: Shape, w: Shape) -> ShardingRule:
    out = (x[0], w[0], *x[2:])
    return ShardingRule.parse(
        "n ci h w, co ci kh kw -> n co h w", shapes=(x, w, out), names=("x", "w"), terms="x*w",
        blocked={"kh": "the window is not cut", "kw": "the window is not cut"},
    )  # fmt: skip


def gather(table: Shape, indices: Shape) -> ShardingRule:
    lead = " ".join(f"i{i}" for i in range(len(indices)))
    return ShardingRule.parse(f"vocab h, {lead} -> {lead} h", shapes=(table, indices, (*indices, table[1])))


def sizes(rule: ShardingRule) -> dict[str, int]:
    return {factor: evaluate(size, frozenset()) for factor, size in rule.sizes}


def placed(rule: ShardingRule, counts: Any, devices: int = 0, **options: Any) -> Placed:
    """Place a strategy on as many devices as it uses, or on those given."""
    return place(rule, counts, sizes(rule), devices or _used(rule, counts), subject="op", **options)


def _used(rule: ShardingRule, counts: Any) -> int:
    found = {f: n for given, t in zip(counts, rule.operands, strict=False)
             for n, (f,) in zip(given, t, strict=False)}  # fmt: skip
    return prod(found.values())
