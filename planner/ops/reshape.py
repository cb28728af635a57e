"""Views between the model dim and attention heads; both move no data between ranks."""

from __future__ import annotations

from ..core.rule import ShardingRule
from ..core.symbol import Size
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, RuleOf, per_element, shapes_of


def _heads(attributes: Attributes) -> tuple[int, int]:
    groups, per_group = attributes["groups"], attributes["per_group"]
    assert isinstance(groups, int)
    assert isinstance(per_group, int)
    return groups, per_group


def _factors(attributes: Attributes) -> tuple[str, str, dict[str, Size]]:
    """Write the head dim as `(g r)`, or as `g` where each group has one head."""
    groups, per_group = _heads(attributes)
    if per_group == 1:
        return "g", "(g e)", {"g": groups}
    return "(g r)", "(g r e)", {"g": groups, "r": per_group}


def _split_infer(operands: tuple[TensorMeta, ...], attributes: Attributes) -> tuple[TensorMeta, ...]:
    batch, seq, width = operands[0].shape
    groups, per_group = _heads(attributes)
    assert isinstance(width, int)
    heads = groups * per_group
    return (TensorMeta((batch, heads, seq, width // heads), operands[0].dtype),)


def _heads_rule(line: str) -> RuleOf:
    """Return the rule of a line in which `merged` and `heads` stand for one dim and for the dims of its heads."""

    def rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], attributes: Attributes) -> ShardingRule:
        heads, merged, sizes = _factors(attributes)
        return ShardingRule.parse(
            line.format(heads=heads, merged=merged),
            shapes=shapes_of(operands + results),
            names=("x",),
            terms="x",
            sizes=sizes,
            even=frozenset({"g", "r"}),
        )

    return rule


def _split_torch(local: Local) -> str:
    _, heads, _, width = local.results[0]
    return f"{local.arguments[0]}.unflatten(2, ({heads}, {width})).transpose(1, 2)"


def _merge_infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    batch, heads, seq, width = operands[0].shape
    return (TensorMeta((batch, seq, heads * width), operands[0].dtype),)


def _merge_torch(local: Local) -> str:
    return f"{local.arguments[0]}.transpose(1, 2).flatten(2)"


SPLIT_HEADS = OpDef(
    name="split_heads",
    summary="[batch, seq, heads·e] → [batch, heads, seq, e]",
    operands=("x",),
    infer=_split_infer,
    rule=_heads_rule("batch seq {merged} -> batch {heads} seq e"),
    flops=per_element(0),
    backward_flops=per_element(0),
    view=True,
    differentiable=("x",),
    torch=_split_torch,
)
MERGE_HEADS = OpDef(
    name="merge_heads",
    summary="[batch, heads, seq, e] → [batch, seq, heads·e]",
    operands=("x",),
    infer=_merge_infer,
    rule=_heads_rule("batch {heads} seq e -> batch seq {merged}"),
    flops=per_element(0),
    backward_flops=per_element(0),
    differentiable=("x",),
    torch=_merge_torch,
)
