"""Rotary position embedding: its table of angles, and the rotation."""

from __future__ import annotations

from ..core.rule import ShardingRule
from ..core.symbol import symbol
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, per_element, shapes_of


def _table_infer(_: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    width = attributes["head_dim"]
    assert isinstance(width, int)
    table = TensorMeta((symbol("S"), width), "float32")
    return (table, table)


def _table_rule(_: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], __: Attributes) -> ShardingRule:
    return ShardingRule.parse(
        "-> seq e, seq e",
        shapes=shapes_of(results),
        blocked={"e": "the angles of one position are made together"},
    )


def _table_torch(local: Local) -> str:
    scaling = ""
    if "rope_factor" in dict(local.node.attributes):
        scaling = (
            f", scaling=({local.attribute('rope_factor')!r}, {local.attribute('rope_low_frequency')!r}, "
            f"{local.attribute('rope_high_frequency')!r}, {local.attribute('rope_original_length')!r})"
        )
    size, width, theta = local.sizes["seq"], local.attribute("head_dim"), local.attribute("theta")
    first = local.start.get("seq", "0")
    return f"ops.rotary_table({size}, {width}, {theta!r}, first={first}{scaling}, device=mesh.device)"


def _rotary_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    return ShardingRule.parse(
        "batch head seq e, seq e, seq e -> batch head seq e",
        shapes=shapes_of(operands + results),
        names=("x", "cos", "sin"),
        terms="x",
        blocked={"e": "rotation pairs the two halves of the head dim"},
        even=frozenset({"head"}),
    )


ROTARY_TABLE = OpDef(
    name="rotary_table",
    summary="cosines and sines of the rotary angles, per position",
    operands=(),
    results=("cos", "sin"),
    infer=_table_infer,
    rule=_table_rule,
    flops=per_element(2),
    backward_flops=per_element(0),
    torch=_table_torch,
)
ROTARY = OpDef(
    name="rotary",
    summary="rotates each head's pairs by the angle of the position",
    operands=("x", "cos", "sin"),
    infer=lambda operands, _: (operands[0],),
    rule=_rotary_rule,
    flops=per_element(3),
    backward_flops=per_element(3),
    saved=("cos", "sin"),
    differentiable=("x",),
    torch=lambda local: f"ops.rotate({', '.join(local.arguments)})",
)
