"""What attention is made of where it is written out: scores, what hides some of them, and the weighted values."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from ..core.graph import Attribute
from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from .constant import BOUNDS
from .definition import Attributes, Local, OpDef, Shape, per_element, shapes_of


def scaled(attributes: Mapping[str, Attribute]) -> list[str]:
    """Return the argument that sets the scale, where it is not that of the width."""
    return [f"scale={attributes['scale']!r}"] if "scale" in attributes else []


def bounded(attributes: Mapping[str, Attribute]) -> list[str]:
    """Return the argument that bounds which keys a query sees."""
    return [f"{name}={attributes[name]}" for name in BOUNDS if name in attributes]


def _scores_infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    q, k = operands
    return (TensorMeta((*q.shape[:-1], k.shape[2]), q.dtype),)


def _scores_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    return ShardingRule.parse(
        "batch (g r) seq e, batch g key e -> batch (g r) seq key", shapes=shapes_of(operands + results),
        names=("q", "k"), terms="q*k", sizes={"g": operands[1].shape[1]}, even=frozenset({"g", "r"}),
    )  # fmt: skip


def _scores_torch(local: Local) -> str:
    scale = local.node.attributes or (("scale", float(local.whole["e"]) ** -0.5),)
    return f"ops.attention_scores({', '.join([*local.arguments, *scaled(dict(scale))])})"


def _attend_infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    weights, v = operands
    return (TensorMeta((*weights.shape[:-1], v.shape[-1]), weights.dtype),)


def _attend_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    return ShardingRule.parse(
        "batch (g r) seq key, batch g key d -> batch (g r) seq d", shapes=shapes_of(operands + results),
        names=("weights", "v"), terms="weights*v", sizes={"g": operands[1].shape[1]}, even=frozenset({"g", "r"}),
    )  # fmt: skip


def _hide_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    # What is hidden is −∞ in every share, and so in their sum.
    return ShardingRule.parse(
        "batch g seq key -> batch g seq key", shapes=shapes_of(operands + results), names=("scores",), terms="scores"
    )


def _hide_torch(local: Local) -> str:
    arguments = [*local.arguments]
    for name, factor in (("first", "seq"), ("first_key", "key")):
        arguments += [f"{name}={local.start[factor]}"] if factor in local.start else []
    arguments += bounded(dict(local.node.attributes))
    return f"ops.hide_future({', '.join(arguments)})"


def _sink_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    rows = ", ".join(["batch head seq"] * (len(operands) - 1))
    return ShardingRule.parse(f"{rows}, head -> batch head seq", shapes=shapes_of(operands + results))


def _product_flops(operands: tuple[Shape, ...], results: tuple[Shape, ...]) -> float:
    return 2.0 * prod(results[0]) * operands[0][-1]


ATTENTION_SCORES = OpDef(
    name="attention_scores",
    summary="q·kᵀ·scale, r query heads to a group of keys",
    operands=("q", "k"),
    infer=_scores_infer,
    rule=_scores_rule,
    flops=_product_flops,
    backward_flops=lambda operands, results: 2 * _product_flops(operands, results),
    saved=("q", "k"),
    differentiable=("q", "k"),
    matmul=True,
    torch=_scores_torch,
)
HIDE_FUTURE = OpDef(
    name="hide_future",
    summary="scores with −∞ for keys after the query, or outside its window",
    operands=("scores",),
    infer=lambda operands, _: (operands[0],),
    rule=_hide_rule,
    flops=per_element(1),
    backward_flops=per_element(1),
    # Which scores are hidden.
    extra_saved=lambda operands, _: float(prod(operands[0][2:])),
    differentiable=("scores",),
    torch=_hide_torch,
)
ATTEND = OpDef(
    name="attend",
    summary="values of the keys by the weights of each query",
    operands=("weights", "v"),
    infer=_attend_infer,
    rule=_attend_rule,
    flops=_product_flops,
    backward_flops=lambda operands, results: 2 * _product_flops(operands, results),
    saved=("weights", "v"),
    differentiable=("weights", "v"),
    matmul=True,
    torch=lambda local: f"ops.attend({', '.join(local.arguments)})",
)
SINK_MAX = OpDef(
    name="sink_max",
    summary="larger of each row's maximum and its head's sink, without gradient",
    operands=("maximum", "sinks"),
    infer=lambda operands, _: (operands[0],),
    rule=_sink_rule,
    flops=per_element(1),
    backward_flops=per_element(0),
    torch=lambda local: f"ops.sink_max({', '.join(local.arguments)})",
)
ADD_SINK = OpDef(
    name="add_sink",
    summary="a row's sum of exponentials with that of its head's sink",
    operands=("sum_exp", "maximum", "sinks"),
    infer=lambda operands, _: (operands[0],),
    rule=_sink_rule,
    flops=per_element(3),
    backward_flops=per_element(2),
    # The exponentials of the sinks.
    extra_saved=lambda operands, _: 4.0 * prod(operands[0]),
    differentiable=("sum_exp", "sinks"),
    torch=lambda local: f"ops.add_sink({', '.join(local.arguments)})",
)
ATTENTION_PARTS = (ATTENTION_SCORES, HIDE_FUTURE, SINK_MAX, ADD_SINK, ATTEND)
