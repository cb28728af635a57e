"""Where the samples of a step come in: the operators that read inputs, and their factors that samples lie along.

Sharding these factors shards everything that follows from the inputs, whatever the model: the others follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from ..core.graph import Block, ModelGraph, Node
from ..core.symbol import Polynomial
from ..core.tensor import TensorMeta
from .target import span

BATCH = "B"


def sample_factors(graph: ModelGraph) -> tuple[tuple[str, str], ...]:
    """Return (target, factor) of the samples at each operator that reads inputs and nothing that is computed of them.

    A target is the end of the operator's name, as short as names nothing else. Factors that may not be sharded are left
    out; with them all, nothing of the model is sharded by its samples.
    """
    dims = {value.name: dim for value in graph.root.inputs if (dim := sample_dim(value.meta)) is not None}
    names = [node.name for block in graph.blocks for node in block.nodes]
    found: dict[tuple[str, str], None] = {}
    for node, factor in _readers(graph.root, dims):
        found[_target(node.name, names), factor] = None
    return tuple(found)


def sample_dim(meta: TensorMeta) -> int | None:
    """Return the first dim whose size grows with the samples of a microbatch; None if there is none."""
    sizes = enumerate(meta.shape)
    return next(
        (d for d, size in sizes if isinstance(size, Polynomial) and any(BATCH in m for m, _ in size.terms)), None
    )


def _readers(block: Block, dims: Mapping[str, int]) -> Iterator[tuple[Node, str]]:
    """Yield the readers in a block and in those that it repeats, which take inputs over under names of their own.

    What is so named of the first iteration, which reads an input, is of all.
    """
    held = {p.name for p in block.parameters}
    for node in block.nodes:
        values = [name for name in node.operands if name not in held]
        if not values or any(name not in dims for name in values):
            continue
        for position, name in enumerate(node.operands):
            factors = node.rule.operands[position][dims[name]] if name in dims else ()
            if factors and node.rule.role(factors[0]) != "blocked":
                yield node, factors[0]
    for repeat in block.repeats:
        bound = zip(repeat.block.inputs, repeat.operands, strict=True)
        yield from _readers(repeat.block, {value.name: dims[name] for value, name in bound if name in dims})


def _target(name: str, names: list[str]) -> str:
    """Return the shortest end of a name that names no other operator."""
    tokens = re.split(r"[./]", name)
    for count in range(1, len(tokens)):
        target = ".".join(tokens[-count:])
        if sum(span(target, other) is not None for other in names) == 1:
            return target
    return ".".join(tokens)
