"""Cross-entropy over the vocabulary, averaged over the targets that are not ignored.

The operator that people edit is `cross_entropy`; it is defined by parts, since the number of valid targets is a
partial sum over all data axes that must be whole *before* the division, and a sharded vocabulary needs the maximum and
the sum of exponentials across its shards (`docs/concepts/rules.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..core.graph import Node
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy
from ..core.tensor import TensorMeta
from .definition import Attributes, Cuts, Local, OpDef, Parts, RuleOf, leading, per_element, shapes_of
from .parts import PartsOf, no_line
from .rows import ROW_MAX, SUM_EXP

_SCALAR = TensorMeta((), "float32")


def _rule_of(line: str, names: tuple[str, ...] = (), terms: str = "", reduce: str = "sum",
             special: frozenset[str] = frozenset(), blocked: dict[str, str] | None = None) -> RuleOf:  # fmt: skip
    def rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
        lead = len(operands[0].shape) - line.startswith("… vocab")
        return ShardingRule.parse(
            line.replace("…", leading(lead)), shapes=shapes_of(operands + results), names=names, terms=terms,
            reduce=reduce, special=special, blocked=blocked,
        )  # fmt: skip

    return rule


def _tokenwise(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    return (TensorMeta(operands[-1].shape, "float32"),)


def _parts(node: Node, strategy: ShardStrategy, _: Cuts) -> Parts:
    parts = PartsOf(CROSS_ENTROPY, node, strategy)
    logits, labels = parts.operand("logits"), parts.operand("labels", "int64")
    vocab = {"k": strategy.axes("vocab")}
    if strategy.axes("vocab"):
        top = parts.add(ROW_MAX, (logits,), axes=vocab, attributes={})
        total = parts.add(SUM_EXP, (logits, top), axes=vocab, attributes={})
        picked = parts.add(PICK_TARGET, (logits, labels))
        losses = parts.add(LOG_LOSS, (total, top, picked, labels))
    else:
        losses = parts.add(TOKEN_LOSS, (logits, labels))
    summed = parts.add(SUM_TOKENS, (losses,))
    count = parts.add(COUNT_TARGETS, (labels,))
    parts.add(DIVIDE, (summed, count), last=True)
    return parts.finished()


def _ignore(local: Local) -> str:
    return f"ignore_index={local.attribute('ignore_index')}"


def _call(name: str, *, first: bool = False, ignore: bool = False, smooth: bool = False) -> Callable[[Local], str]:
    def write(local: Local) -> str:
        arguments = [*local.arguments]
        if first:
            arguments.append(f"first={local.start.get('vocab', '0')}")
        if ignore:
            arguments.append(_ignore(local))
        smoothing = dict(local.node.attributes).get("label_smoothing")
        if smooth and smoothing:
            arguments.append(f"label_smoothing={smoothing!r}")
            arguments += [f"classes={local.whole['vocab']}"] if first else []
        return f"ops.{name}({', '.join(arguments)})"

    return write


_ROWS = "… vocab, … -> …"
CROSS_ENTROPY = OpDef(
    name="cross_entropy",
    summary="mean negative log-likelihood of the labels that are not ignored, smoothed or not",
    operands=("logits", "labels"),
    infer=lambda _operands, _attributes: (_SCALAR,),
    rule=_rule_of("… vocab, … ->", special=frozenset({"batch", "seq", "vocab"})),
    flops=lambda operands, _: 5.0 * prod(operands[0]),
    backward_flops=lambda operands, _: 3.0 * prod(operands[0]),
    differentiable=("logits",),
    torch=no_line,
    parts=_parts,
)
TOKEN_LOSS = OpDef(
    name="token_loss",
    summary="negative log-likelihood of each label, zero where it is ignored",
    operands=("logits", "labels"),
    infer=_tokenwise,
    rule=_rule_of(_ROWS, blocked={"vocab": "a sharded vocabulary has parts of its own"}),
    flops=lambda operands, _: 5.0 * prod(operands[0]),
    backward_flops=lambda operands, _: 3.0 * prod(operands[0]),
    saved=("labels",),
    # The log-probabilities and the total weight, in fp32.
    extra_saved=lambda operands, _: 4.0 * prod(operands[0]) + 4.0,
    differentiable=("logits",),
    torch=_call("token_loss", ignore=True, smooth=True),
)
PICK_TARGET = OpDef(
    name="pick_target",
    summary="logit of each label, zero where it lies in another shard; smoothed, mixed with the mean of all",
    operands=("logits", "labels"),
    infer=_tokenwise,
    rule=_rule_of(_ROWS, names=("logits", "labels"), terms="logits"),
    flops=per_element(1),
    backward_flops=lambda operands, _: 1.0 * prod(operands[0]),
    # A gather keeps what it picks from.
    saved=("logits",),
    # Where each label lies in the shard, and whether it does.
    extra_saved=lambda operands, _: 9.0 * prod(operands[1]),
    sparse=("logits",),
    differentiable=("logits",),
    torch=_call("pick_target", first=True, smooth=True),
)
LOG_LOSS = OpDef(
    name="log_loss",
    summary="log(sum of exponentials) + maximum − target logit, zero where the label is ignored",
    operands=("sum_exp", "maximum", "picked", "labels"),
    infer=_tokenwise,
    rule=_rule_of("…, …, …, … -> …"),
    flops=per_element(3),
    backward_flops=per_element(3),
    saved=("sum_exp",),
    # Which labels are ignored.
    extra_saved=lambda operands, _: 1.0 * prod(operands[3]),
    differentiable=("sum_exp", "picked"),
    torch=_call("log_loss", ignore=True),
)
SUM_TOKENS = OpDef(
    name="sum_tokens",
    summary="sum over the tokens",
    operands=("losses",),
    infer=lambda _operands, _attributes: (_SCALAR,),
    rule=_rule_of("… ->", names=("losses",), terms="losses"),
    flops=lambda operands, _: 1.0 * prod(operands[0]),
    backward_flops=per_element(0),
    differentiable=("losses",),
    torch=lambda local: f"{local.arguments[0]}.sum()",
)
COUNT_TARGETS = OpDef(
    name="count_targets",
    summary="number of labels that are not ignored",
    operands=("labels",),
    infer=lambda _operands, _attributes: (_SCALAR,),
    rule=_rule_of("… ->"),
    flops=lambda operands, _: 1.0 * prod(operands[0]),
    backward_flops=per_element(0),
    torch=_call("count_targets", ignore=True),
)
DIVIDE = OpDef(
    name="divide",
    summary="total / count",
    operands=("total", "count"),
    infer=lambda operands, _: (operands[0],),
    rule=_rule_of(", ->", names=("total", "count"), terms="total"),
    flops=per_element(1),
    backward_flops=per_element(1),
    # The count, at least 1.
    extra_saved=lambda _operands, _bytes: 4.0,
    differentiable=("total",),
    torch=_call("divide"),
)
