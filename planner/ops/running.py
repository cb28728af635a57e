"""Running sums and products along a dim, and the product of all.

With the dim sharded, each shard sums its own block and adds the totals of the blocks before it.
"""

from __future__ import annotations

from ..core.graph import Node
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy
from .blocks import BLOCK, Metas, block_rule, block_torch, blocks_of, dim_in, place, sized, whole_rule
from .definition import Attributes, Cuts, Local, OpDef, Parts, dim_of, per_element
from .lines import integer, like_first, line, of_operand, replaced
from .parts import PartsOf


def _block_sum_infer(operands: Metas, attributes: Attributes) -> Metas:
    x = operands[0]
    return (sized(x, dim_of(attributes, len(x.shape)), integer(attributes, "shards")),)


def _prefix_rule(operands: Metas, made: Metas, attributes: Attributes) -> ShardingRule:
    dims, dim = place(operands, attributes)
    return line(
        operands, made, [replaced(dims, dim, "t")], [replaced(dims, dim, "s")], names=("totals",), terms="totals"
    )


def _add_rule(operands: Metas, made: Metas, attributes: Attributes) -> ShardingRule:
    dims, dim = place(operands, attributes)
    blocks = replaced(dims, dim, "(s m)")
    return line(
        operands, made, [blocks, replaced(dims, dim, "s")], [blocks], names=("x", "offset"), terms="x + offset",
        sizes={"s": integer(attributes, "shards")}, blocked={"m": BLOCK}, even=frozenset({"s"}),
    )  # fmt: skip


def _cumsum_parts(node: Node, strategy: ShardStrategy, cuts: Cuts) -> Parts:
    """Sum within blocks, and add to each the totals of those before it."""
    if not strategy.axes("n"):
        return ()
    parts = PartsOf(CUMSUM, node, strategy)
    x, given = blocks_of(parts, dim_of(dict(node.attributes), len(node.rule.operands[0])), cuts)
    on = {"s": strategy.axes("n")}
    running = parts.add(BLOCK_CUMSUM, (x,), attributes=given, axes=on, carrying={"x": "x"})
    totals = parts.add(BLOCK_SUM, (x,), attributes=given, axes=on, carrying={"x": "x"})
    before = parts.add(PREFIX_SUM, (totals,), attributes=given, axes=on, carrying={"x": "totals"})
    parts.add(BLOCK_ADD, (running, before), attributes=given, axes=on, carrying={"x": "x offset"}, last=True)
    return parts.finished()


def _prefix_torch(local: Local) -> str:
    held = f", held={local.start['t']}" if "t" in local.start else ""
    first = local.start.get("s", "0")
    return f"ordered.prefix_sum({local.arguments[0]}, {dim_in(local)}, first={first}, length={local.sizes['s']}{held})"


def _prod_parts(node: Node, strategy: ShardStrategy, cuts: Cuts) -> Parts:
    """Multiply within blocks, and then the blocks' products."""
    if not strategy.axes("n"):
        return ()
    parts = PartsOf(PROD, node, strategy)
    x, given = blocks_of(parts, dim_of(dict(node.attributes), len(node.rule.operands[0])), cuts)
    products = parts.add(BLOCK_PROD, (x,), attributes=given, axes={"s": strategy.axes("n")})
    own = PartsOf(PROD, node, ShardStrategy.of({f: a for f, a in strategy.factors if f != "n"}), made=parts.made)
    own.add(PROD, (products,), last=True)
    return own.finished()


def _scan(name: str, summary: str, cost: float) -> OpDef:
    """Return a running operator whose dim must stay whole."""
    reason = "each element needs all those before it"
    return OpDef(
        name=name, summary=summary, operands=("x",), infer=like_first,
        rule=whole_rule("n", special=False, blocked=reason),
        flops=per_element(cost), backward_flops=per_element(4), saved=("x", "result"), differentiable=("x",),
        torch=lambda local: f"{local.arguments[0]}.{name}(dim={dim_in(local)})",
    )  # fmt: skip


CUMSUM = OpDef(
    name="cumsum",
    summary="running sum along a dim",
    operands=("x",),
    infer=like_first,
    rule=whole_rule("n", terms="x"),
    flops=per_element(1),
    backward_flops=per_element(1),
    differentiable=("x",),
    torch=lambda local: f"{local.arguments[0]}.cumsum(dim={dim_in(local)})",
    parts=_cumsum_parts,
)
BLOCK_CUMSUM = OpDef(
    name="block_cumsum",
    summary="running sums within each block",
    operands=("x",),
    infer=like_first,
    rule=block_rule("s m", terms="x"),
    flops=per_element(1),
    backward_flops=per_element(1),
    differentiable=("x",),
    torch=block_torch("block_cumsum"),
)
BLOCK_SUM = OpDef(
    name="block_sum",
    summary="the sum of each block",
    operands=("x",),
    infer=_block_sum_infer,
    rule=block_rule("s", terms="x"),
    flops=of_operand(1),
    backward_flops=per_element(0),
    differentiable=("x",),
    torch=block_torch("block_sum"),
)
PREFIX_SUM = OpDef(
    name="prefix_sum",
    summary="for each block, the sum of the totals of those before it",
    operands=("totals",),
    infer=like_first,
    rule=_prefix_rule,
    flops=per_element(1),
    backward_flops=per_element(1),
    differentiable=("totals",),
    torch=_prefix_torch,
)
BLOCK_ADD = OpDef(
    name="block_add",
    summary="each block plus its offset",
    operands=("x", "offset"),
    infer=like_first,
    rule=_add_rule,
    flops=per_element(1),
    backward_flops=per_element(1),
    differentiable=("x", "offset"),
    torch=block_torch("block_add"),
)
PROD = OpDef(
    name="prod",
    summary="product along a dim, which goes",
    operands=("x",),
    infer=lambda operands, a: (sized(operands[0], dim_of(a, len(operands[0].shape))),),
    rule=whole_rule(""),
    flops=of_operand(1),
    backward_flops=of_operand(3),
    saved=("x", "result"),
    differentiable=("x",),
    torch=lambda local: f"{local.arguments[0]}.prod(dim={dim_in(local)})",
    parts=_prod_parts,
)
BLOCK_PROD = OpDef(
    name="block_prod",
    summary="the product of each block",
    operands=("x",),
    infer=_block_sum_infer,
    rule=block_rule("s"),
    flops=of_operand(1),
    backward_flops=of_operand(3),
    saved=("x", "result"),
    differentiable=("x",),
    torch=block_torch("block_prod"),
)
CUMPROD = _scan("cumprod", "running product along a dim", 1)
LOGCUMSUMEXP = _scan("logcumsumexp", "running log Σ exp along a dim", 3)
RUNNING = (
    CUMSUM, BLOCK_CUMSUM, BLOCK_SUM, PREFIX_SUM, BLOCK_ADD, PROD, BLOCK_PROD, CUMPROD, LOGCUMSUMEXP,
)  # fmt: skip
