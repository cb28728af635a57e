"""Attention with grouped heads: causal, in a sliding window, or of all keys with an additive bias.

Queries may be sharded: a device then has some queries and all keys and values, which are gathered (context
parallelism). So may heads: with the sequence sharded around it, the values go to heads and back by all-to-all
(Ulysses); that is no operator's affair. Sharding the keys is special: the scores of some keys by all queries are made
whole by the softmax of a sharded dim, and the weighted values are a partial sum. Ring attention would keep queries and
keys on one axis and pass the keys around; an operator uses an axis once, so it is not among the strategies: gathering
moves the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from ..core.graph import Attribute, Node
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from ..errors import RuleError
from .definition import Attributes, Cuts, Local, OpDef, Parts, Shape, per_element, shapes_of
from .elementwise import ADD
from .parts import PartsOf
from .rows import ROW_MAX, SUM_EXP
from .softmax import SOFTMAX_SCALE

_BLOCKED = {
    "e": "softmax needs whole scores",
    "d": "fused attention kernels need keys and values of one width",
}


def _infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    q, _key, v = operands[:3]
    return (TensorMeta((*q.shape[:-1], v.shape[-1]), q.dtype),)


def _bias(shape: tuple[Size, ...], scores: tuple[Size, ...]) -> str:
    """Return the bias's part of a line; a dim of size 1 is repeated."""
    if len(shape) != 4 or any(size not in (1, whole) for size, whole in zip(shape, scores, strict=True)):
        raise RuleError(
            "rule.attention-bias", f"A bias of {shape} does not fit scores of {scores}.",
            "Give it four dims, each as large as the scores' or 1.",
        )  # fmt: skip
    names = zip(("batch", "(g r)", "seq", "key"), shape, scores, strict=True)
    return " ".join("1" if size == 1 != whole else name for name, size, whole in names)


def _rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    q, k = operands[:2]
    scores = (*q.shape[:-1], k.shape[2])
    bias = "".join(f", {_bias(meta.shape, scores)}" for meta in operands[3:])
    return ShardingRule.parse(
        f"batch (g r) seq e, batch g key e, batch g key d{bias} -> batch (g r) seq d",
        shapes=shapes_of(operands + results),
        names=("q", "k", "v", "bias"),
        terms="v",
        sizes={"g": k.shape[1]},
        blocked=_BLOCKED,
        special=frozenset({"key"}),
        even=frozenset({"g", "r"}),
    )


def _full_flops(operands: tuple[Shape, ...], results: tuple[Shape, ...]) -> float:
    """Two products, of 2·b·h·s·t·e and 2·b·h·s·t·d; a mask that is given as a tensor skips nothing."""
    keys, width = operands[1][2:]
    return 2.0 * prod(results[0][:-1]) * keys * (width + results[0][-1])


def _causal_flops(operands: tuple[Shape, ...], results: tuple[Shape, ...]) -> float:
    """Return what a causal kernel does: it skips what lies above the diagonal.

    With s queries of t keys on the rank that has the last queries, s/(2t) of the square is skipped.
    """
    queries, keys = operands[0][2], operands[1][2]
    return _full_flops(operands, results) * (1 - queries / (2 * keys)) if keys else 0.0


def _scale(attributes: Mapping[str, Attribute]) -> list[str]:
    return [f"scale={attributes['scale']!r}"] if "scale" in attributes else []


def _torch(local: Local) -> str:
    attributes = dict(local.node.attributes)
    arguments = [*local.arguments]
    if local.node.op != "full_attention":
        arguments += [f"first={local.start['seq']}"] if "seq" in local.start else []
        arguments += [f"window={attributes['window']}"] if "window" in attributes else []
    listed = ", ".join(arguments + _scale(attributes))
    return f"ops.{'full' if local.node.op == 'full_attention' else 'causal'}_attention({listed})"


def _parts_of(kind: str) -> Callable[[Node, ShardStrategy, Cuts], Parts]:
    def write(node: Node, strategy: ShardStrategy, _: Cuts) -> Parts:
        if not strategy.axes("key"):
            return ()
        parts = PartsOf(ATTENTIONS[kind], node, strategy)
        q, k, v = (parts.operand(name) for name in ("q", "k", "v"))
        bias = parts.operand("bias") if kind == "full_attention" else None
        heads = strategy.axes("g") + strategy.axes("r")
        rows = {"head": heads, "k": strategy.axes("key")}
        square = {"head": heads, "h": strategy.axes("key")}
        attributes = dict(node.attributes)
        scaled = {name: value for name, value in attributes.items() if name == "scale"}
        scores = parts.add(ATTENTION_SCORES, (q, k), attributes=scaled)
        if bias:
            scores = parts.add(ADD, (scores, bias), role="biased", attributes={}, axes=square)
        if kind != "full_attention":
            window = {name: value for name, value in attributes.items() if name == "window"}
            scores = parts.add(HIDE_FUTURE, (scores,), attributes=window)
        top = parts.add(ROW_MAX, (scores,), attributes={}, axes=rows)
        total = parts.add(SUM_EXP, (scores, top), attributes={}, axes=rows)
        weights = parts.add(SOFTMAX_SCALE, (scores, top, total), attributes={}, axes=rows)
        parts.add(ATTEND, (weights, v), attributes={}, carrying={"v": "v"}, last=True)
        return parts.finished()

    return write


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
    return f"ops.attention_scores({', '.join([*local.arguments, *_scale(dict(scale))])})"


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
    if local.node.attributes:
        arguments.append(f"window={local.attribute('window')}")
    return f"ops.hide_future({', '.join(arguments)})"


def _product_flops(operands: tuple[Shape, ...], results: tuple[Shape, ...]) -> float:
    return 2.0 * prod(results[0]) * operands[0][-1]


def _attention(
    name: str, summary: str, flops: Callable[[tuple[Shape, ...], tuple[Shape, ...]], float], bias: bool = False
) -> OpDef:
    def extra(operands: tuple[Shape, ...], element_bytes: int) -> float:
        """Return the bytes of the log-sum-exp of each query, in fp32, and of the mask of a window."""
        mask = element_bytes * operands[0][2] * operands[1][2] if name == "window_attention" else 0
        return 4.0 * prod(operands[0][:-1]) + mask

    return OpDef(
        name=name,
        summary=summary,
        operands=("q", "k", "v", *(["bias?"] * bias)),
        infer=_infer,
        rule=_rule,
        flops=flops,
        # Dao 2023, FlashAttention-2, section 4: five products in backward against two in forward.
        backward_flops=lambda operands, results: 2.5 * flops(operands, results),
        saved=("q", "k", "v", *(["bias"] * bias), "result"),
        extra_saved=extra,
        differentiable=("q", "k", "v", *(["bias"] * bias)),
        matmul=True,
        kernel="attention",
        torch=_torch,
        parts=_parts_of(name),
    )


ATTENTIONS = {
    op.name: op
    for op in (
        _attention("attention", "causal softmax(q·kᵀ/√e)·v, r query heads to a key/value group", _causal_flops),
        _attention("window_attention", "causal attention to the last keys of a window only", _full_flops),
        _attention(
            "full_attention", "softmax(q·kᵀ/√e + bias)·v of all keys, also of another sequence", _full_flops, bias=True
        ),
    )
}
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
    summary="scores with −∞ for keys after the query, or before its window",
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
