"""What a `ModelGraph` has to be, whoever built it.

- Names of operators, parameters and modules are unique; those of values are unique in their block.
- Each operand is an input, a parameter or an earlier result of its block; so the graph is acyclic.
- Every value has a known shape and element type, and both are those that its operator infers.
- Every node's rule is its operator's rule on the shapes that it has.
- A `Repeat` carries values of one shape and type, captures what its block declares, and holds no
  other repeat; names in its block start with the path of a layer of it, `name.*`.
- The first output of the root is a scalar, the loss.
- Every operator and parameter is of a module of the graph; parents come before children.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ..core.graph import ModelGraph
from ..core.json_text import digest
from ..core.tensor import TensorMeta
from ..errors import Diagnostic
from .block import check_block, finding

__all__ = ["verify_graph"]


def verify_graph(graph: ModelGraph) -> tuple[Diagnostic, ...]:
    """Return everything that is wrong with a graph; empty if nothing is."""
    found: list[Diagnostic] = []
    if digest(graph.source.content) != graph.source.digest:
        found.append(finding("source-digest", graph.name, "has a digest of other content"))
    found += _repeated_names(graph)
    found += _modules(graph)
    metas = check_block(graph.root, (), found)
    found += _loss(graph, metas)
    return tuple(found)


def _repeated_names(graph: ModelGraph) -> Iterator[Diagnostic]:
    blocks = graph.blocks
    for what, names in (
        ("operators", [item.name for block in blocks for item in block.body]),
        ("parameters", [p.name for block in blocks for p in block.parameters]),
        ("modules", [module.path for module in graph.modules]),
    ):
        for name, count in Counter(names).items():
            if count > 1:
                yield finding("name-repeated", name, f"is the name of {count} {what}")


def _modules(graph: ModelGraph) -> Iterator[Diagnostic]:
    known: set[str] = set()
    for module in graph.modules:
        parent = module.path.rpartition(".")[0]
        if module.path and parent not in known:
            yield finding("module-order", module.path, f"comes before its parent {parent!r}")
        known.add(module.path)
    for block in graph.blocks:
        owners = [(node.name, node.module) for node in block.nodes]
        owners += [(p.name, p.name.rpartition(".")[0]) for p in block.parameters]
        for name, owner in owners:
            if owner not in known:
                yield finding("module-unknown", name, f"is of no module of the graph ({owner!r})")


def _loss(graph: ModelGraph, metas: Mapping[str, TensorMeta]) -> Iterator[Diagnostic]:
    loss = graph.root.outputs[0] if graph.root.outputs else ""
    if not loss:
        yield finding("loss", graph.name, "has no output, so no loss")
    elif loss in metas and metas[loss].shape:
        yield finding("loss", loss, f"is the loss, so it has to be a scalar, not {metas[loss]}")
    if graph.logits and graph.logits not in metas:
        yield finding("value-unknown", graph.logits, "is called the logits, and is no value")
