"""The parts of a plan that are written as models of their own: the whole, or each stage of a pipeline.

In a part, names are those of the whole model: what a stage has of its own loses the mark of the stage. A value that
comes from another stage is an input of the part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from ...core.assignment import Assembly, AssignedNode, Fanout, Reader, Scope, TrainingGraph, Update
from ...core.graph import Block, ModelGraph, Node, Parameter, Value
from ...core.layout import Layout
from ...core.portion import portion
from ...core.stage import RECEIVE
from ...core.tensor import TensorMeta

Rename = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """A value that comes to a part: its name there, the operator that receives it, and how it lies on the way."""

    value: str
    node: str
    source: str
    meta: TensorMeta
    layout: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part with its training graph.

    Parameters
    ----------
    number
        Which stage it is; None for the whole.
    received
        What comes from other stages.
    marked
        Name in the part → name in the plan, where they differ.
    """

    training: TrainingGraph
    number: int | None = None
    received: tuple[Received, ...] = ()
    marked: Mapping[str, str]


def parts(training: TrainingGraph) -> tuple[Part, ...]:
    """Return the whole as one part, or a part for each stage."""
    stages = training.assignment.graph.stages
    if not stages:
        return (Part(training=training, marked={}),)
    return tuple(_stage(training, number) for number in range(len(stages)))


def _stage(training: TrainingGraph, number: int) -> Part:
    own = portion(training, number)
    root = own.scopes[0].assembly
    mark = re.compile(rf"@stage{number}(?!\d)")
    renamed = _Renaming(lambda name: mark.sub("", name))
    arriving = [n for n in root.nodes if n.node.op == RECEIVE]
    received = tuple(
        Received(
            value=renamed.name(n.node.results[0].name), node=n.node.name, source=n.node.operands[0],
            meta=n.node.results[0].meta, layout=n.results[0],
        )
        for n in arriving
    )  # fmt: skip
    read = {fanout.value for fanout in own.scopes[0].fanouts}
    inputs = tuple(entry for entry in root.inputs if entry[0] in read)
    inputs += tuple((n.node.results[0].name, n.node.results[0].meta, n.results[0]) for n in arriving)
    first = replace(root, inputs=inputs, nodes=tuple(n for n in root.nodes if n.node.op != RECEIVE))
    scopes = (replace(own.scopes[0], assembly=first), *own.scopes[1:])
    graph = _graph(training.assignment.graph, number)
    assignment = replace(own.assignment, graph=graph, assemblies=tuple(scope.assembly for scope in scopes))
    names = chain((n.node.name for n in first.nodes), read, (p.parameter.name for p in first.parameters))
    marked = {renamed.name(name): name for name in names if renamed.name(name) != name}
    return Part(
        training=renamed.training(TrainingGraph(assignment=assignment, scopes=scopes)), number=number,
        received=received, marked=marked,
    )  # fmt: skip


def _graph(graph: ModelGraph, number: int) -> ModelGraph:
    """Return the graph with what a stage runs, and the modules that it has."""
    names = frozenset(graph.stages[number])
    body = tuple(item for item in graph.root.body if item.name in names and getattr(item, "op", "") != RECEIVE)
    elsewhere = tuple(t for r in graph.root.repeats if r.name not in names for t in r.templates)
    modules = tuple(
        m for m in graph.modules if not any(m.path == t or m.path.startswith(f"{t}.") for t in elsewhere)
    )  # fmt: skip
    held = {operand for item in body for operand in item.operands}
    root = replace(graph.root, body=body, parameters=tuple(p for p in graph.root.parameters if p.name in held))
    return replace(graph, root=root, modules=modules)


@dataclass(frozen=True, slots=True)
class _Renaming:
    """Gives everything of a training graph other names."""

    name: Rename

    def training(self, training: TrainingGraph) -> TrainingGraph:
        scopes = tuple(self._scope(scope) for scope in training.scopes)
        assignment = replace(
            training.assignment, graph=self._graph(training.assignment.graph),
            assemblies=tuple(scope.assembly for scope in scopes),
        )  # fmt: skip
        return TrainingGraph(assignment=assignment, scopes=scopes)

    def _scope(self, scope: Scope) -> Scope:
        return replace(
            scope, assembly=self._assembly(scope.assembly), fanouts=tuple(map(self._fanout, scope.fanouts)),
            updates=tuple(map(self._update, scope.updates)),
        )  # fmt: skip

    def _assembly(self, assembly: Assembly) -> Assembly:
        name = self.name
        return replace(
            assembly, nodes=tuple(map(self._assigned, assembly.nodes)),
            parameters=tuple(replace(p, parameter=self._parameter(p.parameter)) for p in assembly.parameters),
            inputs=tuple((name(value), meta, layout) for value, meta, layout in assembly.inputs),
            operands=tuple((inner, name(outer)) for inner, outer in assembly.operands),
        )  # fmt: skip

    def _assigned(self, assigned: AssignedNode) -> AssignedNode:
        return replace(assigned, node=self._node(assigned.node))

    def _node(self, node: Node) -> Node:
        return replace(
            node, name=self.name(node.name), operands=tuple(map(self.name, node.operands)),
            results=tuple(map(self._value, node.results)), origin=self.name(node.origin),
        )  # fmt: skip

    def _value(self, value: Value) -> Value:
        return replace(value, name=self.name(value.name))

    def _parameter(self, parameter: Parameter) -> Parameter:
        return replace(parameter, name=self.name(parameter.name))

    def _fanout(self, fanout: Fanout) -> Fanout:
        return replace(fanout, value=self.name(fanout.value), readers=tuple(map(self._reader, fanout.readers)))

    def _reader(self, reader: Reader) -> Reader:
        return replace(reader, node=self.name(reader.node))

    def _update(self, update: Update) -> Update:
        return replace(update, parameter=self.name(update.parameter))

    def _graph(self, graph: ModelGraph) -> ModelGraph:
        body = tuple(
            self._node(item) if isinstance(item, Node) else replace(item, operands=tuple(map(self.name, item.operands)))
            for item in graph.root.body
        )
        root = Block(
            inputs=graph.root.inputs, parameters=tuple(map(self._parameter, graph.root.parameters)), body=body,
            outputs=graph.root.outputs,
        )  # fmt: skip
        return replace(graph, root=root)
