"""The largest or smallest elements along a dim, where they are, and all in order.

With the dim sharded, each shard picks in its own block, and the best are picked among what all have picked.
"""

from __future__ import annotations

from collections.abc import Callable

from ..core.graph import Node
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy
from ..core.tensor import TensorMeta
from .blocks import Metas, block_rule, blocks_of, dim_in, kept, place, sized, whole_rule
from .definition import Attributes, Cuts, Local, OpDef, Parts, dim_of, per_element
from .lines import attributes_of, integer, line, misfit, of_operand, replaced
from .parts import Named, PartsOf


def _picked(operands: Metas, attributes: Attributes, count: int) -> Metas:
    x = operands[0]
    dim = dim_of(attributes, len(x.shape))
    return sized(x, dim, count), sized(x, dim, count, dtype="int64")


def _topk_infer(operands: Metas, attributes: Attributes) -> Metas:
    dim, k = dim_of(attributes, len(operands[0].shape)), integer(attributes, "k")
    size = operands[0].shape[dim]
    if k < 1 or (isinstance(size, int) and k > size):
        raise misfit(f"a dim of size {size} has no {k} largest elements")
    return _picked(operands, attributes, k)


def _block_topk_infer(operands: Metas, attributes: Attributes) -> Metas:
    return _picked(operands, attributes, kept(operands[0], attributes) * integer(attributes, "shards"))


def _merge_rule(*results: str) -> Callable[..., ShardingRule]:
    def rule(operands: Metas, made: Metas, attributes: Attributes) -> ShardingRule:
        dims, dim = place(operands, attributes)
        read = replaced(dims, dim, "c")
        reason = "the best of all are picked among all"
        return line(
            operands, made, [read, read], [replaced(dims, dim, *r.split()) for r in results],
            blocked={"c": reason, "k": reason} if "k" in results else {"c": reason},
        )  # fmt: skip

    return rule


def _largest(attributes: Attributes) -> bool:
    return bool(attributes.get("largest", True))


def _topk_torch(local: Local) -> str:
    largest = "" if _largest(attributes_of(local)) else ", largest=False"
    return f"{local.arguments[0]}.topk({integer(attributes_of(local), 'k')}, dim={dim_in(local)}{largest})"


def _block_topk_torch(local: Local) -> str:
    first = f"({local.start['s']}) * {local.whole['m']}" if "s" in local.start else "0"
    return (
        f"ordered.top_of_blocks({local.arguments[0]}, {dim_in(local)}, blocks={local.sizes['s']}, "
        f"k={local.whole['k']}, largest={_largest(attributes_of(local))}, first={first})"
    )


def _merge_torch(function: str, *, k: bool) -> Callable[[Local], str]:
    def write(local: Local) -> str:
        attributes = attributes_of(local)
        count = f", k={integer(attributes, 'k')}" if k else ""
        arguments = ", ".join(local.arguments)
        return f"ordered.{function}({arguments}, {dim_in(local)}{count}, largest={_largest(attributes)})"

    return write


def _topk_parts(node: Node, strategy: ShardStrategy, cuts: Cuts) -> Parts:
    """Pick in every block, read what was picked whole, and pick again."""
    if not strategy.axes("n"):
        return ()
    parts = PartsOf(TOPK, node, strategy)
    x, blocks = blocks_of(parts, dim_of(dict(node.attributes), len(node.rule.operands[0])), cuts)
    given = dict(node.attributes) | blocks
    values = parts.add(BLOCK_TOPK, (x,), attributes=given, axes={"s": strategy.axes("n")})
    parts.add(MERGE_TOPK, (values, _second(parts)), attributes=given, last=True)
    return parts.finished()


def _second(parts: PartsOf) -> Named:
    value = parts.made[-1][0].results[1]
    return value.name, value.meta


def _arg_parts(node: Node, strategy: ShardStrategy, cuts: Cuts, op: OpDef, largest: bool) -> Parts:
    """Pick one element in every block, and the best of these."""
    if not strategy.axes("n"):
        return ()
    parts = PartsOf(op, node, strategy)
    x, blocks = blocks_of(parts, dim_of(dict(node.attributes), len(node.rule.operands[0])), cuts)
    x = (x[0], TensorMeta(x[1].shape))
    given = dict(node.attributes) | blocks | {"k": 1, "largest": largest}
    values = parts.add(BLOCK_TOPK, (x,), attributes=given, axes={"s": strategy.axes("n")})
    parts.add(MERGE_ARG, (values, _second(parts)), attributes=given, last=True)
    return parts.finished()


def _arg(name: str, summary: str, largest: bool) -> OpDef:
    def parts(node: Node, strategy: ShardStrategy, cuts: Cuts) -> Parts:
        return _arg_parts(node, strategy, cuts, op, largest)

    op = OpDef(
        name=name, summary=summary, operands=("x",), infer=_index_infer, rule=whole_rule(""),
        flops=of_operand(1), backward_flops=per_element(0),
        torch=lambda local: f"{local.arguments[0]}.{name}(dim={dim_in(local)})", parts=parts,
    )  # fmt: skip
    return op


def _index_infer(operands: Metas, attributes: Attributes) -> Metas:
    x = operands[0]
    return (sized(x, dim_of(attributes, len(x.shape)), dtype="int64"),)


def _sort_torch(local: Local) -> str:
    descending = ", descending=True" if attributes_of(local).get("descending", False) else ""
    return f"{local.arguments[0]}.sort(dim={dim_in(local)}{descending})"


TOPK = OpDef(
    name="topk",
    summary="the k largest, or smallest, elements along a dim, and where they are",
    operands=("x",),
    results=("values", "indices"),
    infer=_topk_infer,
    rule=whole_rule("k", "k", blocked="the order is over all"),
    flops=of_operand(2),
    backward_flops=of_operand(1),
    saved=("indices",),
    differentiable=("x",),
    torch=_topk_torch,
    parts=_topk_parts,
)
BLOCK_TOPK = OpDef(
    name="block_topk",
    summary="the largest elements of each block, and where they are in the whole",
    operands=("x",),
    results=("values", "indices"),
    infer=_block_topk_infer,
    rule=block_rule("s k", "s k"),
    flops=of_operand(2),
    backward_flops=of_operand(1),
    # Where they are in their blocks, which is as much.
    saved=("indices",),
    differentiable=("x",),
    torch=_block_topk_torch,
)
MERGE_TOPK = OpDef(
    name="merge_topk",
    summary="the largest among the candidates of all blocks",
    operands=("values", "indices"),
    results=("values", "indices"),
    infer=lambda operands, a: _picked(operands, a, integer(a, "k")),
    rule=_merge_rule("k", "k"),
    flops=of_operand(2),
    backward_flops=of_operand(1),
    # Where they are among the candidates, which is as much.
    saved=("indices",),
    differentiable=("values",),
    torch=_merge_torch("merge_top", k=True),
)
ARGMAX = _arg("argmax", "where the largest element along a dim is", largest=True)
ARGMIN = _arg("argmin", "where the smallest element along a dim is", largest=False)
MERGE_ARG = OpDef(
    name="merge_arg",
    summary="where the best among the candidates of all blocks is",
    operands=("values", "indices"),
    infer=_index_infer,
    rule=_merge_rule(""),
    flops=of_operand(1),
    backward_flops=per_element(0),
    torch=_merge_torch("merge_arg", k=False),
)
SORT = OpDef(
    name="sort",
    summary="elements along a dim in order, and where they were",
    operands=("x",),
    results=("values", "indices"),
    infer=lambda operands, a: (operands[0], TensorMeta(operands[0].shape, "int64")),
    rule=whole_rule("n", "n", special=False, blocked="the order is over all"),
    # Halvings of a dim of 65,536.
    flops=of_operand(16),
    backward_flops=of_operand(1),
    saved=("indices",),
    differentiable=("x",),
    torch=_sort_torch,
)
TOPS = (TOPK, BLOCK_TOPK, MERGE_TOPK, ARGMAX, ARGMIN, MERGE_ARG, SORT)
