"""Operators that work element by element."""

from __future__ import annotations

from math import prod

from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from .definition import Attributes, OpDef, leading, per_element, shapes_of


def _line(operands: tuple[TensorMeta, ...]) -> str:
    tensor = f"{leading(len(operands[0].shape) - 1)} h"
    return f"{', '.join([tensor] * len(operands))} -> {tensor}"


def _add_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    return ShardingRule.parse(_line(operands), shapes=shapes_of(operands + results), names=("x", "y"), terms="x + y")


def _swiglu_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    return ShardingRule.parse(_line(operands), shapes=shapes_of(operands + results), names=("gate", "up"), terms="up")


ADD = OpDef(
    name="add",
    summary="x + y",
    operands=("x", "y"),
    infer=lambda operands, _: (operands[0],),
    rule=_add_rule,
    flops=per_element(1),
    backward_flops=per_element(0),
    differentiable=("x", "y"),
    torch=lambda local: " + ".join(local.arguments),
)
SWIGLU = OpDef(
    name="swiglu",
    summary="silu(gate) · up",
    operands=("gate", "up"),
    infer=lambda operands, _: (operands[0],),
    rule=_swiglu_rule,
    flops=per_element(6),
    backward_flops=per_element(12),
    saved=("gate", "up"),
    # silu(gate), which the product keeps.
    extra_saved=lambda operands, element_bytes: float(prod(operands[0]) * element_bytes),
    differentiable=("gate", "up"),
    torch=lambda local: f"F.silu({local.arguments[0]}) * {local.arguments[1]}",
)
