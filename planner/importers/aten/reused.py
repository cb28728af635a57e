"""Modules without weights that run more than once in another module, such as the one `self.relu` of a residual block.

What they run is a line of the code that calls them, so it belongs there: `layer1.0/relu`, `layer1.0/relu_2`. A module
that runs once, or has weights or modules of its own, stays what it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...core.graph import Node


def with_their_callers(nodes: Sequence[Node], parameters: Iterable[str]) -> tuple[list[Node], dict[str, str]]:
    """Return the operators, those of modules that run again as operators of the modules that call them.

    The second is how values are called that have another name now.
    """
    again = set(_run_again(nodes, set(parameters)))
    names = {node.name: _name(node) for node in nodes if node.module in again}
    taken = {node.name for node in nodes} - names.keys()
    if len(set(names.values())) < len(names) or not taken.isdisjoint(names.values()):
        return list(nodes), {}
    values = {v.name: names[n.name] + v.name[len(n.name) :] for n in nodes if n.name in names for v in n.results}
    moved = [
        replace(
            node,
            name=names.get(node.name, node.name),
            module=node.module.rpartition(".")[0] if node.name in names else node.module,
            operands=tuple(values.get(name, name) for name in node.operands),
            results=tuple(replace(value, name=values.get(value.name, value.name)) for value in node.results),
        )
        for node in nodes
    ]
    return moved, values


def _run_again(nodes: Sequence[Node], parameters: set[str]) -> Iterator[str]:
    """Yield the modules without weights and inner modules whose operators have others between them."""
    places: dict[str, list[int]] = {}
    weighted: set[str] = set()
    for place, node in enumerate(nodes):
        places.setdefault(node.module, []).append(place)
        if not parameters.isdisjoint(node.operands):
            weighted.add(node.module)
    around = {path.rpartition(".")[0] for path in places}
    for module, own in places.items():
        apart = own[-1] - own[0] >= len(own)
        if module and apart and module not in weighted and module not in around:
            yield module


def _name(node: Node) -> str:
    """Return the name with the module's last token in front of it in its caller: `a.relu/relu_2` → `a/relu_2`."""
    caller, _, leaf = node.module.rpartition(".")
    role = node.name[len(node.module) + 1 :] or leaf
    said = role if role.split("_")[0] == leaf else f"{leaf}_{role}"
    return f"{caller}/{said}" if caller else said
