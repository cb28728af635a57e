"""Table look-ups."""

from __future__ import annotations

from ..core.rule import ShardingRule
from ..core.tensor import TensorMeta
from .definition import Attributes, Local, OpDef, leading, per_element, shapes_of


def _infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    tokens, weight = operands
    return (TensorMeta((*tokens.shape, weight.shape[1]), weight.dtype),)


def _rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    lead = leading(len(operands[0].shape))
    return ShardingRule.parse(
        f"{lead}, vocab h -> {lead} h",
        shapes=shapes_of(operands + results),
        names=("tokens", "weight"),
        terms="weight",
    )


def _torch(local: Local) -> str:
    tokens, weight = local.arguments
    if "vocab" in local.start:
        return f"ops.embedding_of_shard({tokens}, {weight}, first={local.start['vocab']})"
    return f"F.embedding({tokens}, {weight})"


EMBEDDING = OpDef(
    name="embedding",
    summary="rows of a table, picked by token; a shard of the vocabulary gives zero rows for tokens outside it",
    operands=("tokens", "weight"),
    infer=_infer,
    rule=_rule,
    flops=per_element(0),
    backward_flops=per_element(1),
    saved=("tokens",),
    sparse=("weight",),
    differentiable=("weight",),
    torch=_torch,
)
