"""Softmax over one dim, and the two sums over a row that it shares with the loss.

Sharding the normalised dim `k` is special: each row's maximum and sum of exponentials are reduced over the shards,
then every shard scales its own part. The maximum gets no gradient: softmax does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..core.graph import Node
from ..core.strategy import ShardStrategy
from .definition import Cuts, OpDef, Parts, per_element
from .lines import like_first
from .parts import PartsOf
from .rows import ROW_MAX, SUM_EXP, row_call, row_rule


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
    infer=like_first,
    rule=row_rule("rows -> rows", special=frozenset({"k"})),
    flops=per_element(5),
    backward_flops=per_element(4),
    saved=("result",),
    differentiable=("x",),
    torch=row_call("F.softmax"),
    parts=_parts_of("softmax"),
)
LOG_SOFTMAX = OpDef(
    name="log_softmax",
    summary="x − log Σ exp(x) over one dim",
    operands=("x",),
    infer=like_first,
    rule=row_rule("rows -> rows", special=frozenset({"k"})),
    flops=per_element(5),
    backward_flops=per_element(4),
    saved=("result",),
    differentiable=("x",),
    torch=row_call("F.log_softmax"),
    parts=_parts_of("log_softmax"),
)
SOFTMAX_SCALE = OpDef(
    name="softmax_scale",
    summary="exp(x − maximum) / sum of exponentials of the row",
    operands=("x", "maximum", "sum_exp"),
    infer=like_first,
    rule=row_rule("rows, left, left -> rows"),
    flops=per_element(3),
    backward_flops=per_element(5),
    saved=("sum_exp",),
    # The exponentials in fp32.
    extra_saved=lambda operands, _: 4.0 * prod(operands[0]),
    differentiable=("x", "sum_exp"),
    torch=row_call("ops.softmax_scale"),
)
LOG_SOFTMAX_SHIFT = OpDef(
    name="log_softmax_shift",
    summary="x − maximum − log(sum of exponentials) of the row",
    operands=("x", "maximum", "sum_exp"),
    infer=like_first,
    rule=row_rule("rows, left, left -> rows"),
    flops=per_element(2),
    backward_flops=per_element(2),
    saved=("sum_exp",),
    differentiable=("x", "sum_exp"),
    torch=row_call("ops.log_softmax_shift"),
)
