"""Which values hand a gradient on to a parameter, as far as the graph alone says it.

The first layer may read an input of the model, which needs no gradient, where the others read the layer before: its
backward does less, so it is a run by itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.graph import Block, ModelGraph, Node, Repeat
from ..ops import OPS


def learnt_values(graph: ModelGraph) -> frozenset[str]:
    """Return the values of the root that depend on a trained parameter in a way that has a gradient."""
    return frozenset(_learnt(graph.root, ()))


def begins_unlike(repeat: Repeat, learnt: frozenset[str]) -> bool:
    """Return whether the first iteration takes over a value without gradient where later ones take over one with it.

    Parameters
    ----------
    learnt
        The values of the root that have a gradient.
    """
    if repeat.count == 1:
        return False
    bound = list(zip(repeat.block.inputs, repeat.operands, strict=True))
    given = {value.name for value, name in bound if name in learnt}
    inner = _learnt(repeat.block, given)
    later = {v.name for v, out in zip(repeat.block.inputs, repeat.block.outputs, strict=False) if out in inner}
    return bool(later - given)


def _learnt(block: Block, given: Iterable[str]) -> set[str]:
    found = {*given, *(p.name for p in block.parameters if p.trainable)}
    for item in block.body:
        if _reads(item, found):
            found |= {value.name for value in item.results}
    return found


def _reads(item: Node | Repeat, found: set[str]) -> bool:
    if isinstance(item, Repeat):
        return any(p.trainable for p in item.block.parameters) or not found.isdisjoint(item.operands)
    definition = OPS[item.op]
    named = zip(definition.operand_names, item.operands, strict=False)
    return any(operand in found for name, operand in named if name in definition.differentiable)
