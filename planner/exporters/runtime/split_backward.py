"""Backward in two parts: first the gradients of a stage's inputs, which the stage before waits for, later the weights'.

In the graph that autograd built, some nodes lie between the outputs and the inputs of the stage: the *trunk*. Others
only lead to weights; where they leave the trunk, a *branch* begins, such as the transpose of a matrix or the gather
of its shards. The first part runs the trunk and notes the gradient that comes to each trunk node that feeds a branch.
The second part asks each of these nodes for the gradient of its branch alone, so nothing of the trunk is computed
twice, and then runs the branches.

Some branches can't wait, and what their trunk node hands them is noted in the first part: where several trunk nodes
feed one branch, such as that of a weight that is used twice, since asking one of them would run the trunk down to the
next; and where the node is a function written in Python, which computes all its gradients whenever it is asked. Where
one branch runs into the beginning of another, both are run in the first part down to their weights.

Where a product is asked for the gradient of one factor, that factor's value does not matter, though autograd would
fetch it: the caller is told, so that a gathered weight is not gathered again for it.

All that forward kept stays until the second part. The idea of the two parts is that of Qi et al., "Zero Bubble
Pipeline Parallelism" (arXiv 2401.10241).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

Edge = tuple[Node, int]
"""A node of autograd's graph, and which of the results of its forward is meant."""
# Dicts to None are sets that keep their order, so that all ranks do the same things one after the other.
Ordered = dict[Edge, None]
Noted = dict[Edge, torch.Tensor]
_LINEAR: Mapping[str, tuple[frozenset[int], ...]] = {
    "AddmmBackward0": (frozenset({0, 1}), frozenset({0, 2})),
    "BaddbmmBackward0": (frozenset({0, 1}), frozenset({0, 2})),
    "BmmBackward0": (frozenset({0}), frozenset({1})),
    "ConvolutionBackward0": (frozenset({1, 2}),),
    "MmBackward0": (frozenset({0}), frozenset({1})),
    "MulBackward0": (frozenset({0}), frozenset({1})),
}
"""Products → sets of operands in all of which together they are linear."""


def backward_inputs(
    outputs: Sequence[GradientEdge],
    gradients: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    unwanted: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[list[torch.Tensor | None], Callable[[], None]]:
    """Return the gradients of the inputs, and a function that adds those of the weights to them.

    Parameters
    ----------
    outputs
        Where the gradients come in.
    inputs
        Leaves of the graph.
    unwanted
        Entered while the second part asks nodes whose result does not depend on the values of weights that they kept.
    """
    leaves = [get_gradient_edge(x) for x in inputs]
    trunk = _Trunk([edge.node for edge in outputs], [leaf.node for leaf in leaves])
    come: Noted = {}
    for edge, gradient in zip(outputs, gradients, strict=True):
        _add(come, (edge.node, edge.output_nr), gradient)
    # What is given out beside the trunk, such as a weight that is sent on, waits for the second part as it is.
    later = {edge: gradient for edge, gradient in come.items() if edge[0] not in trunk.nodes}
    roots = {edge: gradient for edge, gradient in come.items() if edge[0] in trunk.nodes}
    if not roots:
        return [None] * len(inputs), lambda: _run(later)
    wanted = trunk.noted_first(roots)
    found = torch.autograd.grad(
        _edges(roots), [*leaves, *_edges(wanted)], list(roots.values()), retain_graph=True, allow_unused=True
    )
    noted = {edge: g for edge, g in zip(wanted, found[len(inputs) :], strict=True) if g is not None}
    return list(found[: len(inputs)]), lambda: _finish(trunk, noted, later, unwanted)


def _finish(trunk: _Trunk, noted: Noted, later: Noted, unwanted: Callable[[], AbstractContextManager[None]]) -> None:
    """Ask the trunk nodes for the gradients of their branches, and run the branches."""
    by_node: dict[Node, Noted] = defaultdict(dict)
    for edge, gradient in noted.items():
        if edge[0] in trunk.nodes:
            by_node[edge[0]][edge] = gradient
        else:
            _add(later, edge, gradient)
    for node, branches in trunk.waiting.items():
        come = by_node.pop(node, None)
        if come:
            with unwanted() if trunk.linear(node) else nullcontext():
                found = torch.autograd.grad(_edges(come), _edges(branches), list(come.values()), allow_unused=True)
            for edge, gradient in zip(branches, found, strict=True):
                if gradient is not None:
                    _add(later, edge, gradient)
    _run(later)


def _run(gradients: Noted) -> None:
    if gradients:
        torch.autograd.backward(_edges(gradients), list(gradients.values()))


def _add(noted: Noted, edge: Edge, gradient: torch.Tensor) -> None:
    noted[edge] = noted[edge] + gradient if edge in noted else gradient


def _edges(edges: Iterable[Edge]) -> list[GradientEdge]:
    return [GradientEdge(*edge) for edge in edges]


@dataclass(frozen=True, eq=False)
class _Graph:
    """All nodes behind some others in the order in which they are found, and those before each."""

    nodes: dict[Node, None]
    before: dict[Node, list[Node]]


def _graph(roots: Iterable[Node]) -> _Graph:
    graph = _Graph(dict.fromkeys(roots), defaultdict(list))
    todo = list(graph.nodes)
    while todo:
        for node, (following, _) in _followed([todo.pop()]):
            graph.before[following].append(node)
            if following not in graph.nodes:
                graph.nodes[following] = None
                todo.append(following)
    return graph


class _Trunk:
    """The trunk of a graph and its branches.

    Attributes
    ----------
    nodes
        The nodes of the trunk.
    waiting
        Trunk node → the branches that it can be asked for alone.
    now
        Edges outside of the trunk whose gradients are noted in the first part.
    """

    def __init__(self, outputs: Sequence[Node], leaves: Sequence[Node]) -> None:
        graph = _graph(outputs)
        self.nodes = _reaching(graph, leaves)
        self.waiting: dict[Node, Ordered] = defaultdict(dict)
        self.now: Ordered = {}
        self._results: dict[Node, Ordered] = defaultdict(dict)
        branches: list[tuple[Node, Edge]] = []
        for node, edge in _followed(node for node in graph.nodes if node in self.nodes):
            if edge[0] in self.nodes:
                self._results[edge[0]][edge] = None
            else:
                branches.append((node, edge))
        feeders: dict[Node, set[Node]] = defaultdict(set)
        for node, (following, _) in branches:
            feeders[following].add(node)
        tangled = _tangled(feeders)
        for node, edge in branches:
            if edge[0] in tangled:
                self.now |= tangled[edge[0]]
            elif len(feeders[edge[0]]) > 1 or isinstance(node, BackwardCFunction):
                self.now[edge] = None
            else:
                self.waiting[node][edge] = None

    def linear(self, node: Node) -> bool:
        """Return whether the gradients of a node's branches do not depend on the branches' values."""
        asked = {
            slot for slot, (following, _) in enumerate(node.next_functions)
            if following is not None and following not in self.nodes
        }  # fmt: skip
        return any(asked <= slots for slots in _LINEAR.get(node.name(), ()))

    def noted_first(self, roots: Iterable[Edge]) -> Ordered:
        """Return the edges whose gradients the first part notes, if it begins at `roots`."""
        wanted: Ordered = {edge: None for edge in roots if edge[0] in self.waiting}
        for node in self.waiting:
            wanted |= self._results[node]
        return wanted | self.now


def _followed(nodes: Iterable[Node]) -> Iterator[tuple[Node, Edge]]:
    """Yield nodes with the edges that leave them."""
    for node in nodes:
        for following, result in node.next_functions:
            if following is not None:
                yield node, (following, result)


def _reaching(graph: _Graph, leaves: Iterable[Node]) -> set[Node]:
    """Return the nodes from which a leaf can be reached."""
    todo = [leaf for leaf in leaves if leaf in graph.nodes]
    found = set(todo)
    while todo:
        for node in graph.before[todo.pop()]:
            if node not in found:
                found.add(node)
                todo.append(node)
    return found


def _tangled(tops: Iterable[Node]) -> dict[Node, Ordered]:
    """Return the branches that run into the beginning of another one, or share weights with one that does.

    Each with the ends of its ways: the nodes that add to weights.
    """
    behind = {top: _graph([top]).nodes for top in tops}
    tangled: set[Node] = set()
    for top, nodes in behind.items():
        others = {node for node in nodes if node in behind and node is not top}
        tangled |= others | ({top} if others else set())
    grown = True
    while grown:
        touched = {node for top in tangled for node in behind[top]}
        more = {top for top, nodes in behind.items() if top not in tangled and not touched.isdisjoint(nodes)}
        tangled |= more
        grown = bool(more)
    return {
        top: {(node, 0): None for node in nodes if not any(following for following, _ in node.next_functions)}
        for top, nodes in behind.items()
        if top in tangled
    }
