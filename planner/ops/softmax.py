"""Softmax over one dim, and the two sums over a row that it shares with the loss.

Sharding the normalised dim `k` is special: each row's maximum and sum of exponentials are reduced over the shards,
then every shard scales its own part. The maximum gets no gradient: softmax does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..core.graph import Node
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy
from ..core.tensor import TensorMeta
from .definition import Attributes, Cuts, Local, OpDef, Parts, dim_of, names_of, per_element, shapes_of
from .parts import PartsOf

Rule = Callable[[tuple[TensorMeta, ...], tuple[TensorMeta, ...], Attributes], ShardingRule]


def _rule_of(line: str, *, reduce: str = "sum", special: frozenset[str] = frozenset()) -> Rule:
    """Return a rule from its line, where `rows` stands for all dims and `left` for all but the normalised one."""

    def rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes) -> ShardingRule:
        rows = names_of(len(operands[0].shape))
        rows[dim_of(attributes, len(rows))] = "k"
        left = [name for name in rows if name != "k"]
        return ShardingRule.parse(
            line.replace("rows", " ".join(rows)).replace("left", " ".join(left)), shapes=shapes_of(operands + results),
            reduce=reduce, special=special,
        )  # fmt: skip

    return rule


def _row(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    shape = list(operands[0].shape)
    del shape[dim_of(attributes, len(shape))]
    return (TensorMeta(tuple(shape), "float32"),)


def _like_first(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    return (operands[0],)


def _call(function: str) -> Callable[[Local], str]:
    def write(local: Local) -> str:
        dim = dim_of(dict(local.node.attributes), len(local.operands[0]))
        arguments = [*local.arguments]
        if dim != len(local.operands[0]) - 1 or function.startswith("F."):
            arguments.append(f"dim={dim}")
        return f"{function}({', '.join(arguments)})"

    return write


def _parts_of(whole: str) -> Callable[[Node, ShardStrategy, Cuts], Parts]:
    def write(node: Node, strategy: ShardStrategy, _: Cuts) -> Parts:
        if not strategy.axes("k"):
            return ()
        op, scale = {"softmax": (SOFTMAX, SOFTMAX_SCALE), "log_softmax": (LOG_SOFTMAX, LOG_SOFTMAX_SHIFT)}[whole]
        parts = PartsOf(op, node, strategy)
        x = parts.operand("x")
        top = parts.add(ROW_MAX, (x,))
        total = parts.add(SUM_EXP, (x, top))
        parts.add(scale, (x, top, total), last=True)
        return parts.finished()

    return write


SOFTMAX = OpDef(
    name="softmax",
    summary="exp(x) / Σ exp(x) over one dim",
    operands=("x",),
    infer=_like_first,
    rule=_rule_of("rows -> rows", special=frozenset({"k"})),
    flops=per_element(5),
    backward_flops=per_element(4),
    saved=("result",),
    differentiable=("x",),
    torch=_call("F.softmax"),
    parts=_parts_of("softmax"),
)
LOG_SOFTMAX = OpDef(
    name="log_softmax",
    summary="x − log Σ exp(x) over one dim",
    operands=("x",),
    infer=_like_first,
    rule=_rule_of("rows -> rows", special=frozenset({"k"})),
    flops=per_element(5),
    backward_flops=per_element(4),
    saved=("result",),
    differentiable=("x",),
    torch=_call("F.log_softmax"),
    parts=_parts_of("log_softmax"),
)
ROW_MAX = OpDef(
    name="row_max",
    summary="largest entry of each row's shard, without gradient",
    operands=("x",),
    infer=_row,
    rule=_rule_of("rows -> left", reduce="max"),
    flops=lambda operands, _: 1.0 * prod(operands[0]),
    backward_flops=per_element(0),
    torch=_call("ops.row_max"),
)
SUM_EXP = OpDef(
    name="sum_exp",
    summary="sum of exp(x − maximum) over each row's shard",
    operands=("x", "maximum"),
    infer=_row,
    rule=_rule_of("rows, left -> left"),
    flops=lambda operands, _: 3.0 * prod(operands[0]),
    backward_flops=lambda operands, _: 2.0 * prod(operands[0]),
    # The exponentials in fp32.
    extra_saved=lambda operands, _: 4.0 * prod(operands[0]),
    differentiable=("x",),
    torch=_call("ops.sum_exp"),
)
SOFTMAX_SCALE = OpDef(
    name="softmax_scale",
    summary="exp(x − maximum) / sum of exponentials of the row",
    operands=("x", "maximum", "sum_exp"),
    infer=_like_first,
    rule=_rule_of("rows, left, left -> rows"),
    flops=per_element(3),
    backward_flops=per_element(5),
    saved=("sum_exp",),
    # The exponentials in fp32.
    extra_saved=lambda operands, _: 4.0 * prod(operands[0]),
    differentiable=("x", "sum_exp"),
    torch=_call("ops.softmax_scale"),
)
LOG_SOFTMAX_SHIFT = OpDef(
    name="log_softmax_shift",
    summary="x − maximum − log(sum of exponentials) of the row",
    operands=("x", "maximum", "sum_exp"),
    infer=_like_first,
    rule=_rule_of("rows, left, left -> rows"),
    flops=per_element(2),
    backward_flops=per_element(2),
    saved=("sum_exp",),
    differentiable=("x", "sum_exp"),
    torch=_call("ops.log_softmax_shift"),
)
