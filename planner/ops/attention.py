"""Attention with grouped heads: causal, in a window, of all keys with a bias or a mask, or with learnt sinks.

Queries may be sharded: a device then has some queries and all keys and values, which are gathered (context
parallelism). So may heads: with the sequence sharded around it, the values go to heads and back by all-to-all
(Ulysses); that is no operator's affair. Sharding the keys is special: the scores of some keys by all queries are made
whole by the softmax of a sharded dim, and the weighted values are a partial sum. Ring attention would keep queries and
keys on one axis and pass the keys around; an operator uses an axis once, so it is not among the strategies: gathering
moves the same bytes.

Torch's fused kernels know neither sinks, nor a cap on the scores, nor a dropout that ranks could repeat: with one of
these attention is written out, as it is where keys are sharded.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..core.graph import Node
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from ..errors import RuleError
from .attention_parts import (
    ADD_SINK,
    ATTEND,
    ATTENTION_SCORES,
    HIDE_FUTURE,
    SINK_MAX,
    bounded,
    scaled,
)  # fmt: skip
from .constant import BOUNDS
from .definition import Attributes, Count, Cuts, Local, OpDef, Parts, RuleOf, Shape, shapes_of
from .dropout import DROPOUT
from .elementwise import ADD, ELEMENTWISE
from .parts import Named, PartsOf, no_line
from .rows import ROW_MAX, SUM_EXP
from .softmax import SOFTMAX, SOFTMAX_SCALE

_BLOCKED = {
    "e": "softmax needs whole scores",
    "d": "fused attention kernels need keys and values of one width",
}
_FOURTH = {"full_attention": "bias", "masked_attention": "mask", "sink_attention": "sinks"}
"""The operand after q, k and v."""
_ELEMENTWISE = {op.name: op for op in ELEMENTWISE}


def _infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    q, _key, v = operands[:3]
    given = [name for name in BOUNDS if name in attributes]
    if len(given) > 1 or any(not isinstance(attributes[name], int) for name in given):
        raise RuleError(
            "rule.attribute", f"Attention can't have {', '.join(f'{n}={attributes[n]}' for n in given)}.",
            "Give one of them, an integer.",
        )  # fmt: skip
    return (TensorMeta((*q.shape[:-1], v.shape[-1]), q.dtype),)


def _on_scores(meta: TensorMeta, scores: tuple[Size, ...], kind: str) -> str:
    """Return the part of a line of what is laid over the scores; a dim of size 1 is repeated."""
    shape = meta.shape
    if len(shape) != 4 or any(size not in (1, whole) for size, whole in zip(shape, scores, strict=True)):
        raise RuleError(
            "rule.attention-bias", f"A bias or mask of {shape} does not fit scores of {scores}.",
            "Give it four dims, each as large as the scores' or 1.",
        )  # fmt: skip
    if (meta.dtype == "bool") != (kind == "masked_attention"):
        raise RuleError(
            "rule.attention-bias", f"{kind} can't take {meta} beside q, k and v.",
            "Use masked_attention for a mask of truth values, and full_attention for numbers that are added.",
        )  # fmt: skip
    names = zip(("batch", "(g r)", "seq", "key"), shape, scores, strict=True)
    return " ".join("1" if size == 1 != whole else name for name, size, whole in names)


def _rule_of(kind: str) -> RuleOf:
    def rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
        q, k = operands[:2]
        scores = (*q.shape[:-1], k.shape[2])
        more = ["(g r)" if kind == "sink_attention" else _on_scores(meta, scores, kind) for meta in operands[3:]]
        return ShardingRule.parse(
            f"{', '.join(['batch (g r) seq e', 'batch g key e', 'batch g key d', *more])} -> batch (g r) seq d",
            shapes=shapes_of(operands + results),
            names=("q", "k", "v", _FOURTH.get(kind, "")),
            terms="v",
            sizes={"g": k.shape[1]},
            blocked=_BLOCKED,
            special=frozenset({"key"}),
            even=frozenset({"g", "r"}),
        )

    return rule


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


def _torch(local: Local) -> str:
    attributes = dict(local.node.attributes)
    if _is_unfused(local.node.op, attributes):
        return no_line(local)
    causal = local.node.op in {"attention", "window_attention"}
    arguments = [*local.arguments]
    if causal:
        arguments += [f"first={local.start['seq']}"] if "seq" in local.start else []
        arguments += bounded(attributes)
    return f"ops.{'causal' if causal else 'full'}_attention({', '.join(arguments + scaled(attributes))})"


def _is_unfused(op: str, attributes: Attributes) -> bool:
    return op == "sink_attention" or bool({"softcap", "dropout"} & attributes.keys())


def _parts_of(kind: str) -> Callable[[Node, ShardStrategy, Cuts], Parts]:
    def write(node: Node, strategy: ShardStrategy, _: Cuts) -> Parts:
        if not strategy.axes("key") and not _is_unfused(kind, dict(node.attributes)):
            return ()
        return _Written(kind, PartsOf(ATTENTIONS[kind], node, strategy)).parts()

    return write


class _Written:
    """Writes attention out as parts."""

    def __init__(self, kind: str, parts: PartsOf) -> None:
        self.kind, self.made, self.strategy = kind, parts, parts.strategy
        self.attributes = dict(parts.node.attributes)
        heads, keys = self.strategy.axes("g") + self.strategy.axes("r"), self.strategy.axes("key")
        self.heads = heads
        self.rows = {"head": heads, "k": keys}
        self.square = {"head": heads, "h": keys}

    def parts(self) -> Parts:
        q, k, v = (self.made.operand(name) for name in ("q", "k", "v"))
        scale = {name: value for name, value in self.attributes.items() if name == "scale"}
        scores = self._hidden(self._capped(self.made.add(ATTENTION_SCORES, (q, k), attributes=scale)))
        weights = self._dropped(self._softmax(scores))
        self.made.add(ATTEND, (weights, v), attributes={}, carrying={"v": "v"}, last=True)
        return self.made.finished()

    def _capped(self, scores: Named) -> Named:
        """Hold the scores between −cap and cap."""
        cap = self.attributes.get("softcap")
        if not isinstance(cap, int | float):
            return scores
        scores = self._on_square("scale", scores, role="shrunk", factor=1 / cap)
        scores = self._on_square("tanh", scores, role="capped")
        return self._on_square("scale", scores, role="grown", factor=float(cap))

    def _on_square(self, op: str, *operands: Named, role: str = "", **attributes: float) -> Named:
        return self.made.add(_ELEMENTWISE[op], operands, role=role, attributes=attributes, axes=self.square)

    def _hidden(self, scores: Named) -> Named:
        """Add the bias, or put −∞ for keys that a query does not see."""
        bounds = {name: value for name, value in self.attributes.items() if name in BOUNDS}
        if self.kind == "full_attention":
            bias = self.made.operand("bias")
            return (
                self.made.add(ADD, (scores, bias), role="biased", attributes={}, axes=self.square) if bias else scores
            )
        if self.kind == "masked_attention":
            mask = self.made.operand("mask", "bool")
            assert mask is not None
            unseen = self.made.add(_ELEMENTWISE["logical_not"], (mask,), role="unseen", attributes={}, axes=self.square)
            return self._on_square("masked_fill", scores, unseen, role="hidden", value=float("-inf"))
        return self.made.add(HIDE_FUTURE, (scores,), attributes=bounds)

    def _softmax(self, scores: Named) -> Named:
        sinks = self.made.operand("sinks") if self.kind == "sink_attention" else None
        if sinks is None and not self.strategy.axes("key"):
            return self.made.add(SOFTMAX, (scores,), attributes={}, axes=self.rows)
        top = self.made.add(ROW_MAX, (scores,), attributes={}, axes=self.rows)
        if sinks is None:
            total = self.made.add(SUM_EXP, (scores, top), attributes={}, axes=self.rows)
        else:
            # Each head has one more key, of which only the score is there.
            top = self._on_numbers(SINK_MAX, top, sinks)
            total = self.made.add(SUM_EXP, (scores, top), attributes={}, axes=self.rows)
            total = self._on_numbers(ADD_SINK, total, top, sinks)
        return self.made.add(SOFTMAX_SCALE, (scores, top, total), attributes={}, axes=self.rows)

    def _on_numbers(self, op: OpDef, *operands: Named) -> Named:
        return self.made.add(op, operands, attributes={}, axes={"head": self.heads})

    def _dropped(self, weights: Named) -> Named:
        if "dropout" not in self.attributes:
            return weights
        attributes = {"p": self.attributes["dropout"], "seed": self.attributes.get("seed", 0)}
        return self.made.add(DROPOUT, (weights,), attributes=attributes, axes=self.square)


def _attention(name: str, summary: str, flops: Callable[[tuple[Shape, ...], tuple[Shape, ...]], float]) -> OpDef:
    more = [_FOURTH[name] + "?" * (name == "full_attention")] if name in _FOURTH else []
    fourth = [operand.rstrip("?") for operand in more if operand != "mask"]

    def extra(operands: tuple[Shape, ...], element_bytes: int) -> float:
        """Return the bytes of the log-sum-exp of each query, in fp32, and of the mask of a window."""
        mask = 0
        if name == "window_attention":
            mask = element_bytes * operands[0][2] * operands[1][2]
        if name == "masked_attention":
            mask = element_bytes * prod(operands[3])
        return 4.0 * prod(operands[0][:-1]) + mask

    def counts(attributes: Attributes) -> tuple[Count, Count]:
        if _is_unfused(name, attributes):
            return _full_flops, lambda operands, results: 2 * _full_flops(operands, results)
        # Dao 2023, FlashAttention-2, section 4: five products in backward against two in forward.
        return flops, lambda operands, results: 2.5 * flops(operands, results)

    forward, backward = counts({})
    return OpDef(
        name=name,
        summary=summary,
        operands=("q", "k", "v", *more),
        infer=_infer,
        rule=_rule_of(name),
        flops=forward,
        backward_flops=backward,
        counts=counts,
        saved=("q", "k", "v", *fourth, "result"),
        extra_saved=extra,
        differentiable=("q", "k", "v", *fourth),
        matmul=True,
        kernel="attention",
        torch=_torch,
        parts=_parts_of(name),
    )


ATTENTIONS = {
    op.name: op
    for op in (
        _attention("attention", "causal softmax(q·kᵀ/√e)·v, r query heads to a key/value group", _causal_flops),
        _attention(
            "window_attention", "attention to the keys of a window only: the last, those of a chunk, or those around",
            _full_flops,
        ),
        _attention(
            "full_attention", "softmax(q·kᵀ/√e + bias)·v of all keys, also of another sequence", _full_flops
        ),
        _attention("masked_attention", "attention to the keys that a mask of truth values shows", _full_flops),
        _attention(
            "sink_attention", "causal attention, also in a window, with one more learnt score a head", _full_flops
        ),
    )
}  # fmt: skip
