"""Operators on the rows of one dim `k`, and what others share of them: a row's maximum, and its sums.

A row is whole unless `k` is sharded; then its maximum or sum is a partial result that an all-reduce completes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, RuleOf, dim_of, names_of, per_element, shapes_of


def row_rule(line: str, *, reduce: str = "sum", special: frozenset[str] = frozenset()) -> RuleOf:
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


def row_call(function: str, *attributes: str) -> Callable[[Local], str]:
    """Return the line that calls a function with the operands, the dim and these attributes."""

    def write(local: Local) -> str:
        dim = dim_of(dict(local.node.attributes), len(local.operands[0]))
        arguments = [*local.arguments]
        if dim != len(local.operands[0]) - 1 or function.startswith("F."):
            arguments.append(f"dim={dim}")
        arguments += [f"{name}={local.attribute(name)!r}" for name in attributes]
        return f"{function}({', '.join(arguments)})"

    return write


ROW_MAX = OpDef(
    name="row_max",
    summary="largest entry of each row's shard, without gradient",
    operands=("x",),
    infer=_row,
    rule=row_rule("rows -> left", reduce="max"),
    flops=lambda operands, _: 1.0 * prod(operands[0]),
    backward_flops=per_element(0),
    torch=row_call("ops.row_max"),
)
SUM_EXP = OpDef(
    name="sum_exp",
    summary="sum of exp(x − maximum) over each row's shard",
    operands=("x", "maximum"),
    infer=_row,
    rule=row_rule("rows, left -> left"),
    flops=lambda operands, _: 3.0 * prod(operands[0]),
    backward_flops=lambda operands, _: 2.0 * prod(operands[0]),
    # The exponentials in fp32.
    extra_saved=lambda operands, _: 4.0 * prod(operands[0]),
    differentiable=("x",),
    torch=row_call("ops.sum_exp"),
)
MEAN_SQUARE = OpDef(
    name="mean_square",
    summary="local share of Σx² / width over each row",
    operands=("x",),
    infer=_row,
    rule=row_rule("rows -> left"),
    flops=lambda operands, _: 2.0 * prod(operands[0]),
    backward_flops=lambda operands, _: 2.0 * prod(operands[0]),
    saved=("x",),
    differentiable=("x",),
    torch=row_call("ops.mean_square", "width"),
)
