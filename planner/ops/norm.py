"""Normalisations. Sharding the normalised dim costs an all-reduce of the mean square: it is defined by two parts."""

from __future__ import annotations

from math import prod

from ..core.graph import Node
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from .definition import Attributes, Cuts, Local, OpDef, Parts, leading, per_element, shapes_of
from .parts import PartsOf


def _lead(operands: tuple[TensorMeta, ...]) -> str:
    return leading(len(operands[0].shape) - 1)


def _rms_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    return ShardingRule.parse(
        f"{_lead(operands)} h, h -> {_lead(operands)} h",
        shapes=shapes_of(operands + results),
        names=("x", "weight"),
        terms="weight",
        special=frozenset({"h"}),
    )


def _rms_torch(local: Local) -> str:
    x, weight = local.arguments
    return f"F.rms_norm({x}, {weight}.shape, {weight}, eps={local.attribute('eps')!r})"


def _rms_parts(node: Node, strategy: ShardStrategy, _: Cuts) -> Parts:
    """Mean square as a partial sum over the shards of h, then the scaling that reads it whole."""
    if not strategy.axes("h"):
        return ()
    parts = PartsOf(RMS_NORM, node, strategy)
    x, weight = parts.operand("x"), parts.operand("weight")
    square = parts.add(MEAN_SQUARE, (x,), attributes=dict(node.attributes) | {"width": _integer(node.rule.size("h"))})
    # The mean square is linear in nothing, so it keeps nothing partial; the scaling does it in its own weight.
    parts.add(RMS_SCALE, (x, square, weight), carrying={"weight": "weight"}, last=True)
    return parts.finished()


def _integer(width: Size) -> int:
    assert isinstance(width, int)
    return width


def _mean_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    lead = _lead(operands)
    return ShardingRule.parse(f"{lead} h -> {lead}", shapes=shapes_of(operands + results))


def _scale_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    lead = _lead(operands)
    return ShardingRule.parse(
        f"{lead} h, {lead}, h -> {lead} h",
        shapes=shapes_of(operands + results),
        names=("x", "mean_square", "weight"),
        terms="weight",
    )


def _scale_torch(local: Local) -> str:
    x, mean_square, weight = local.arguments
    return f"ops.rms_scale({x}, {mean_square}, {weight}, eps={local.attribute('eps')!r})"


RMS_NORM = OpDef(
    name="rms_norm",
    summary="x / sqrt(mean(x²) + eps) · weight over the last dim",
    operands=("x", "weight"),
    infer=lambda operands, _: (operands[0],),
    rule=_rms_rule,
    flops=per_element(4),
    backward_flops=per_element(8),
    saved=("x", "weight"),
    # The fused kernel keeps 1 / root mean square, in fp32.
    extra_saved=lambda operands, _: 4.0 * prod(operands[0][:-1]),
    differentiable=("x", "weight"),
    torch=_rms_torch,
    parts=_rms_parts,
)
MEAN_SQUARE = OpDef(
    name="mean_square",
    summary="local share of the mean of x² over the last dim",
    operands=("x",),
    infer=lambda operands, _: (TensorMeta(operands[0].shape[:-1], "float32"),),
    rule=_mean_rule,
    flops=lambda operands, _: 2.0 * prod(operands[0]),
    backward_flops=lambda operands, _: 2.0 * prod(operands[0]),
    saved=("x",),
    differentiable=("x",),
    torch=lambda local: f"ops.mean_square({local.arguments[0]}, width={local.attribute('width')})",
)
RMS_SCALE = OpDef(
    name="rms_scale",
    summary="x / sqrt(mean_square + eps) · weight",
    operands=("x", "mean_square", "weight"),
    infer=lambda operands, _: (operands[0],),
    rule=_scale_rule,
    flops=per_element(3),
    backward_flops=per_element(6),
    saved=("x", "weight"),
    # The normalised x, and 1 / root mean square in fp32.
    extra_saved=lambda operands, element_bytes: element_bytes * prod(operands[0]) + 4.0 * prod(operands[1]),
    differentiable=("x", "mean_square", "weight"),
    torch=_scale_torch,
)
