"""Where to look when a proof fails: the operator and the edge of the plan that explain the wrong rows best.

A wrong backward of a value's edge spoils the gradients of the parameters that the value is computed from, and of no
others; a wrong forward spoils the loss and nearly every gradient. So an edge is suspected the more, the better the
parameters above it agree with the wrong rows, and first of all if a collective that did not run as planned is one of
its steps. What is named is likely, not certain: two edges in a row may explain the same rows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from ..core.assignment import Fanout, Scope, TrainingGraph
from ..core.collective import Redistribution, Step
from ..core.layout import Layout

_INDEX = re.compile(r"(?<=[./])(?:\d+(?:-\d+(?:\+\d+)?)?|\*)(?=[./:~]|$)")
"""An index of a list in a name, or what stands for several."""
LOSS = "loss"
SHOWN = 4
"""How many edges that are as likely are named."""

Vertex = tuple[int, str]
"""A value: index of its scope, and name."""
Collective = tuple[str, tuple[str, ...], int, int]
"""Kind, axes, and elements that a rank passes in and gets out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """An edge in one direction.

    Parameters
    ----------
    edge
        Name of the value.
    node
        Name of the operator that reads it, or whose gradient comes back.
    hint
        Readers, direction and collectives, in a sentence.
    spoils
        Parameters, by `general`, whose gradients a fault here makes wrong.
    steps
        Its collectives, as one rank does them.
    backward
        Whether it is the way of the gradient.
    """

    edge: str
    node: str
    hint: str
    spoils: frozenset[str]
    steps: frozenset[Collective]
    backward: bool


def general(name: str) -> str:
    """Return a parameter's name with every index of a list replaced by `*`."""
    return _INDEX.sub("*", name)


def likely(
    name: str, suspects: Collection[Suspect], wrong: Collection[str], unlike: Collection[Collective]
) -> Suspect | None:
    """Return the edge that explains best that the row `name` is wrong; None if none moves anything on its way.

    Edges that explain it as well are named in its hint.

    Parameters
    ----------
    wrong
        Names of all wrong rows.
    unlike
        Collectives that did not run as planned on the rank that `suspects` was asked for.
    """
    spoiled = {general(row) for row in wrong if row != LOSS}

    def weight(suspect: Suspect) -> tuple[bool, bool, float]:
        agreeing = len(suspect.spoils & spoiled) / max(len(suspect.spoils | spoiled), 1)
        return not suspect.steps.isdisjoint(unlike), suspect.backward != (LOSS in wrong), agreeing

    on_the_way = [s for s in suspects if name == LOSS or not s.backward or general(name) in s.spoils]
    if not on_the_way:
        return None
    most = max(map(weight, on_the_way))
    # Of several, the one with the fewest parameters above it: it is nearest to them.
    best, *others = sorted((s for s in on_the_way if weight(s) == most), key=lambda s: len(s.spoils))
    also = dict.fromkeys(s.edge for s in others if s.edge != best.edge)
    if not also:
        return best
    listed = ", ".join(list(also)[:SHOWN]) + (" …" if len(also) > SHOWN else "")
    return replace(best, hint=f"{best.hint} As likely: {listed}.")


def suspects(training: TrainingGraph, rank: int) -> tuple[Suspect, ...]:
    """Return every edge that moves something, forward and backward, from the loss up, as a rank does it."""
    above = _above(training)
    trained = {general(p.parameter.name) for a in training.assignment.assemblies for p in a.parameters}
    found = []
    for index, scope in enumerate(training.scopes):
        for fanout in scope.fanouts:
            names = {general(value) for _, value in _ancestors((index, fanout.value), above)} & trained
            for backward, deliveries in ((False, fanout.forward), (True, fanout.backward)):
                for delivery in deliveries:
                    if delivery.redistribution.steps:
                        found.append(
                            _suspect(
                                training, scope, fanout, delivery.readers, delivery.redistribution, backward=backward,
                                rank=rank, spoils=frozenset(names if backward else trained),
                            )
                        )  # fmt: skip
    return tuple(reversed(found))


def _suspect(
    training: TrainingGraph, scope: Scope, fanout: Fanout, readers: tuple[int, ...], moved: Redistribution, *,
    backward: bool, rank: int, spoils: frozenset[str],
) -> Suspect:  # fmt: skip
    nodes = list(dict.fromkeys(_reader(training, scope, fanout, position) for position in readers))
    ways = ", then ".join(f"{step.kind} over {'·'.join(step.axes)}" for step in moved.steps)
    way = f"{moved.source} → {moved.target} by {ways}"
    listed = ", ".join(nodes[:3]) + (" …" if len(nodes) > 3 else "")
    told = f"the gradient of {fanout.value} from {listed}" if backward else f"{fanout.value} to {listed}"
    mesh = training.assignment.mesh

    def elements(step: Step, layout: Layout) -> int:
        return prod(layout.shape_of(step.shape, mesh, rank))

    steps = frozenset(
        (step.kind, step.axes, elements(step, step.source), elements(step, step.target)) for step in moved.steps
    )
    return Suspect(
        edge=fanout.value, node=nodes[0], hint=f"Most likely {told}: {way}.", spoils=spoils, steps=steps,
        backward=backward,
    )  # fmt: skip


def _reader(training: TrainingGraph, scope: Scope, fanout: Fanout, position: int) -> str:
    """Return the name of a reading operator; a run that takes the value in reads it with its first one that does."""
    reader = fanout.readers[position]
    assembly = training.assignment.assemblies[reader.scope]
    if assembly.node(reader.node) is not None or reader.operand >= len(assembly.inputs):
        return reader.node
    inner = assembly.inputs[reader.operand][0]
    return next((n.node.name for n in assembly.nodes if inner in n.node.operands), reader.node)


def _above(training: TrainingGraph) -> Mapping[Vertex, set[Vertex]]:
    """Return each value with those that it is computed from, across the borders of runs."""
    above: dict[Vertex, set[Vertex]] = {}
    for index, scope in enumerate(training.scopes):
        for below, over in _edges(index, scope):
            above.setdefault(below, set()).add(over)
    return above


def _edges(index: int, scope: Scope) -> Iterator[tuple[Vertex, Vertex]]:
    assembly = scope.assembly
    for assigned in assembly.nodes:
        for value in assigned.node.results:
            yield from (((index, value.name), (index, operand)) for operand in assigned.node.operands)
    for inner, outer in assembly.operands:
        yield (index, inner), (0, outer)
    for result, (inner, made) in zip(assembly.results, assembly.carried, strict=False):
        yield (index, inner), (index, made)
        yield (0, result), (index, made)


def _ancestors(start: Vertex, above: Mapping[Vertex, set[Vertex]]) -> set[Vertex]:
    """Return a value and all that it is computed from."""
    found, waiting = {start}, [start]
    while waiting:
        new = above.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found
