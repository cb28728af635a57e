"""Table look-ups."""

from __future__ import annotations

from math import prod

from ..core.graph import Node
from ..core.rule import ShardingRule
from ..core.strategy import ShardStrategy
from ..core.tensor import TensorMeta
from .definition import Attributes, Cuts, Local, OpDef, Parts, leading, per_element, shapes_of
from .parts import PartsOf, no_line
from .reduce import MEAN, SUM


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
    padding = dict(local.node.attributes).get("padding")
    if "vocab" in local.start:
        more = f", padding={padding}" if padding is not None else ""
        return f"ops.embedding_of_shard({tokens}, {weight}, first={local.start['vocab']}{more})"
    return f"F.embedding({tokens}, {weight}{f', padding_idx={padding}' if padding is not None else ''})"


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


def _bag_infer(operands: tuple[TensorMeta, ...], _: Attributes) -> tuple[TensorMeta, ...]:
    tokens, weight = operands
    return (TensorMeta((*tokens.shape[:-1], weight.shape[1]), weight.dtype),)


def _bag_rule(operands: tuple[TensorMeta, ...], results: tuple[TensorMeta, ...], _: Attributes) -> ShardingRule:
    lead = leading(len(operands[0].shape))
    bags = lead.rpartition(" ")[0]
    return ShardingRule.parse(f"{lead}, vocab h -> {bags} h", shapes=shapes_of(operands + results))


def _bag_parts(node: Node, strategy: ShardStrategy, _: Cuts) -> Parts:
    """Pick the rows, and add up those of a bag."""
    parts = PartsOf(EMBEDDING_BAG, node, strategy)
    given = dict(node.attributes)
    rows = parts.add(EMBEDDING, (parts.operand("tokens", "int64"), parts.operand("weight")), attributes={})
    reduction = MEAN if given.get("mode", "sum") == "mean" else SUM
    parts.add(reduction, (rows,), attributes={"dims": (-2,)}, last=True)
    return parts.finished()


EMBEDDING_BAG = OpDef(
    name="embedding_bag",
    summary="sum, or mean, of the rows of a table that a bag of tokens picks",
    operands=("tokens", "weight"),
    infer=_bag_infer,
    rule=_bag_rule,
    flops=lambda operands, results: 1.0 * prod(operands[0]) * results[0][-1],
    backward_flops=lambda operands, results: 1.0 * prod(operands[0]) * results[0][-1],
    differentiable=("weight",),
    torch=no_line,
    parts=_bag_parts,
)
