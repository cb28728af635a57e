"""Matrix products with a parameter."""

from __future__ import annotations

from math import prod

from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, Shape, leading, shapes_of


def _infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    x, weight = operands[:2]
    return (TensorMeta((*x.shape[:-1], weight.shape[0]), x.dtype),)


def _rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    lead = leading(len(operands[0].shape) - 1)
    bias = len(operands) == 3
    return ShardingRule.parse(
        f"{lead} k, n k{', n' if bias else ''} -> {lead} n",
        shapes=shapes_of(operands + results),
        names=("x", "weight", "bias"),
        terms="x*weight + bias" if bias else "x*weight",
    )


def _flops(operands: tuple[Shape, ...], _: tuple[Shape, ...]) -> float:
    return 2.0 * prod(operands[0]) * operands[1][0]


def _torch(local: Local) -> str:
    return f"F.linear({', '.join(local.arguments)})"


LINEAR = OpDef(
    name="linear",
    summary="y = x·weightᵀ, plus bias if it has one",
    operands=("x", "weight", "bias?"),
    infer=_infer,
    rule=_rule,
    flops=_flops,
    backward_flops=lambda operands, results: 2 * _flops(operands, results),
    saved=("x", "weight"),
    differentiable=("x", "weight", "bias"),
    matmul=True,
    torch=_torch,
)
