"""Normalisations. Sharding the normalised dim costs an all-reduce of the mean square: it is defined by two parts."""

from __future__ import annotations

from math import prod

from ..core.graph import Node
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from .definition import Attributes, Cuts, Local, OpDef, Parts, leading, per_element, shapes_of
from .lines import like_first
from .parts import PartsOf
from .rows import MEAN_SQUARE, row_call, row_rule


def _lead(operands: tuple[TensorMeta, ...]) -> str:
    return leading(len(operands[0].shape) - 1)


def _rms_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    weight = ", h" if len(operands) > 1 else ""
    return ShardingRule.parse(
        f"{_lead(operands)} h{weight} -> {_lead(operands)} h",
        shapes=shapes_of(operands + results),
        names=("x", "weight"),
        terms="weight" if weight else "",
        special=frozenset({"h"}),
    )


def _rms_torch(local: Local) -> str:
    x, *weight = local.arguments
    shape = f"{weight[0]}.shape" if weight else f"({local.sizes['h']},)"
    return f"F.rms_norm({', '.join([x, shape, *weight])}, eps={local.attribute('eps')!r})"


def _rms_parts(node: Node, strategy: ShardStrategy, _: Cuts) -> Parts:
    """Mean square as a partial sum over the shards of h, then the scaling that reads it whole."""
    if not strategy.axes("h"):
        return ()
    parts = PartsOf(RMS_NORM, node, strategy)
    x, weight = parts.operand("x"), parts.operand("weight")
    width = _integer(node.rule.size("h"))
    square = parts.add(MEAN_SQUARE, (x,), attributes={"width": width}, axes={"k": strategy.axes("h")})
    # The mean square is linear in nothing, so it keeps nothing partial; the scaling does it in its own weight.
    parts.add(RMS_SCALE, (x, square, weight), carrying={"weight": "weight"}, last=True)
    return parts.finished()


def _integer(width: Size) -> int:
    assert isinstance(width, int)
    return width


def _scale_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    lead = _lead(operands)
    weight = ", h" if len(operands) > 2 else ""
    return ShardingRule.parse(
        f"{lead} h, {lead}{weight} -> {lead} h",
        shapes=shapes_of(operands + results),
        names=("x", "mean_square", "weight"),
        terms="weight" if weight else "",
    )


def _scale_torch(local: Local) -> str:
    return f"ops.rms_scale({', '.join(local.arguments)}, eps={local.attribute('eps')!r})"


def _l2_parts(node: Node, strategy: ShardStrategy, _: Cuts) -> Parts:
    """Sum of squares over the shards of the row, then the scaling that reads it whole."""
    if not strategy.axes("k"):
        return ()
    parts = PartsOf(L2_NORM, node, strategy)
    x = parts.operand("x")
    square = parts.add(MEAN_SQUARE, (x,), attributes=dict(node.attributes) | {"width": 1})
    parts.add(L2_SCALE, (x, square), last=True)
    return parts.finished()


RMS_NORM = OpDef(
    name="rms_norm",
    summary="x / sqrt(mean(x²) + eps) over the last dim, times a weight if it has one",
    operands=("x", "weight?"),
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
RMS_SCALE = OpDef(
    name="rms_scale",
    summary="x / sqrt(mean_square + eps), times a weight if it has one",
    operands=("x", "mean_square", "weight?"),
    infer=lambda operands, _: (operands[0],),
    rule=_scale_rule,
    flops=per_element(3),
    backward_flops=per_element(6),
    saved=("x", "weight"),
    # For the weight the normalised x, and 1 / root mean square in fp32.
    extra_saved=lambda operands, element_bytes: (
        (element_bytes * prod(operands[0]) if len(operands) > 2 else 0.0) + 4.0 * prod(operands[1])
    ),
    differentiable=("x", "mean_square", "weight"),
    torch=_scale_torch,
)
L2_NORM = OpDef(
    name="l2_norm",
    summary="x / max(√Σx², eps) over one dim",
    operands=("x",),
    infer=like_first,
    rule=row_rule("rows -> rows", special=frozenset({"k"})),
    flops=per_element(3),
    backward_flops=per_element(6),
    saved=("x",),
    differentiable=("x",),
    torch=row_call("F.normalize", "eps"),
    parts=_l2_parts,
)
L2_SCALE = OpDef(
    name="l2_scale",
    summary="x / max(√sum of squares, eps)",
    operands=("x", "mean_square"),
    infer=like_first,
    rule=row_rule("rows, left -> rows"),
    flops=per_element(2),
    backward_flops=per_element(4),
    saved=("x",),
    # The root before and after it is held above eps, in fp32.
    extra_saved=lambda operands, _: 8.0 * prod(operands[1]),
    differentiable=("x", "mean_square"),
    torch=row_call("ops.l2_scale", "eps"),
)
