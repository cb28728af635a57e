"""Rotary position embedding and causal attention with grouped heads."""

from __future__ import annotations

from math import prod

from ..core.rule import ShardingRule
from ..core.symbol import symbol
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, Shape, per_element, shapes_of


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


def _attention_infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    q, _key, v = operands
    return (TensorMeta((*q.shape[:-1], v.shape[-1]), q.dtype),)


def _attention_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    groups = operands[1].shape[1]
    return ShardingRule.parse(
        "batch (g r) seq e, batch g key e, batch g key d -> batch (g r) seq d",
        shapes=shapes_of(operands + results),
        names=("q", "k", "v"),
        terms="v",
        sizes={"g": groups},
        blocked={
            "e": "softmax needs whole scores",
            "key": "softmax needs the scores of all keys (ring attention is not supported yet)",
            "d": "fused attention kernels need keys and values of one width",
        },
        even=frozenset({"g", "r"}),
    )


def _attention_flops(operands: tuple[Shape, ...], _: tuple[Shape, ...]) -> float:
    """Two products of 2·b·h·s·t·e, of which a causal kernel skips what lies above the diagonal.

    With s queries of t keys on the rank that has the last queries, s/(2t) of the square is skipped.
    """
    (batch, heads, queries, width), (_b, _g, keys, _e) = operands[0], operands[1]
    return 4.0 * batch * heads * queries * keys * width * (1 - queries / (2 * keys))


def _attention_torch(local: Local) -> str:
    q, k, v = local.arguments
    first = f", first={local.start['seq']}" if "seq" in local.start else ""
    return f"ops.causal_attention({q}, {k}, {v}{first})"


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
ATTENTION = OpDef(
    name="attention",
    summary="causal softmax(q·kᵀ/√e)·v, r query heads to a key/value group",
    operands=("q", "k", "v"),
    infer=_attention_infer,
    rule=_attention_rule,
    flops=_attention_flops,
    # Dao 2023, FlashAttention-2, section 4: five products in backward against two in forward.
    backward_flops=lambda operands, results: 2.5 * _attention_flops(operands, results),
    saved=("q", "k", "v", "result"),
    # The log-sum-exp of each query, in fp32.
    extra_saved=lambda operands, _: 4.0 * prod(operands[0][:-1]),
    differentiable=("q", "k", "v"),
    matmul=True,
    torch=_attention_torch,
)
