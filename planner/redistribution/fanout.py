"""Stage 3: find every value's readers and plan how the value gets to them.

The unit is the value with its readers: readers that ask for equal layouts share one redistribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ..core.assignment import Assembly, Assignment, Delivery, Fanout, Reader, Scope, ShardedGraph
from ..core.collective import PlanEdge
from ..core.layout import Layout
from ..core.tensor import TensorMeta

LOSS_READER = "backward pass"


def distribute(assignment: Assignment, plan_edge: PlanEdge) -> ShardedGraph:
    """Return the sharded graph: every value with its readers and their forward redistributions."""
    scopes = []
    for index, assembly in enumerate(assignment.assemblies):
        readers = _readers(assignment, index)
        on_host = {p.parameter.name for p in assembly.parameters if p.place == "host"}
        fanouts = [
            replace(
                _fanout(assignment, plan_edge, name, kind, meta, layout, readers[name], regather), host=name in on_host
            )
            for name, kind, meta, layout, regather in _values(assignment, assembly)
            if name in readers
        ]
        scopes.append(Scope(assembly=assembly, fanouts=tuple(fanouts)))
    return ShardedGraph(assignment=assignment, scopes=tuple(scopes))


def _values(assignment: Assignment, assembly: Assembly) -> Iterable[tuple[str, str, TensorMeta, Layout, bool]]:
    """Yield name, kind, meta, layout and regather of every value that a scope makes, inputs and parameters first."""
    kind = "carry" if assembly.name else "input"
    yield from ((name, kind, meta, layout, False) for name, meta, layout in assembly.inputs)
    for p in assembly.parameters:
        yield p.parameter.name, "parameter", p.parameter.meta, p.storage, p.regather
    for node in assembly.nodes:
        for value, layout in zip(node.node.results, node.results, strict=True):
            yield value.name, "activation", value.meta, layout, False
    if not assembly.name:
        for run in assignment.assemblies[1:]:
            for result, (_, meta, layout) in zip(run.results, run.inputs, strict=True):
                yield result, "activation", meta, layout, False


def _readers(assignment: Assignment, index: int) -> dict[str, list[Reader]]:
    """Return, for the values of one scope, who reads them in which layout."""
    assembly = assignment.assemblies[index]
    readers: dict[str, list[Reader]] = {}

    def add(value: str, node: str, operand: int, layout: Layout, scope: int) -> None:
        reader = Reader(node=node, operand=operand, layout=layout, raw=None, scope=scope)
        readers.setdefault(value, []).append(reader)

    captured = {inner for inner, _ in assembly.operands[len(assembly.inputs) :]} if assembly.name else set()
    for assigned in assembly.nodes:
        for operand, (name, layout) in enumerate(zip(assigned.node.operands, assigned.operands, strict=True)):
            if name not in captured:
                add(name, assigned.node.name, operand, layout, index)
    for operand, ((_, output), (_, _, layout)) in enumerate(zip(assembly.carried, assembly.inputs, strict=False)):
        add(output, assembly.title, operand, layout, index)
    if not assembly.name:
        _root_readers(assignment, add)
    return readers


def _root_readers(assignment: Assignment, add: Callable[[str, str, int, Layout, int], None]) -> None:
    """Add the runs as readers of outer values, and the backward pass as reader of the loss."""
    for index, run in enumerate(assignment.assemblies[1:], start=1):
        for operand, (inner, outer) in enumerate(run.operands):
            if operand < len(run.inputs):
                add(outer, run.title, operand, run.inputs[operand][2], index)
                continue
            for assigned in run.nodes:
                for position, name in enumerate(assigned.node.operands):
                    if name == inner:
                        add(outer, assigned.node.name, position, assigned.operands[position], index)
    for output in assignment.graph.root.outputs:
        add(output, LOSS_READER, 0, Layout(()), 0)


def _fanout(
    assignment: Assignment, plan_edge: PlanEdge, name: str, kind: str, meta: TensorMeta, source: Layout,
    readers: list[Reader], regather: bool,
) -> Fanout:  # fmt: skip
    shape = meta.concrete(assignment.symbols)
    targets: dict[Layout, list[int]] = {}
    for position, reader in enumerate(readers):
        targets.setdefault(reader.layout.normal(assignment.mesh), []).append(position)
    forward = tuple(
        Delivery(
            readers=tuple(members),
            redistribution=plan_edge(source, readers[members[0]].layout, shape, meta.dtype),
        )
        for members in targets.values()
    )
    return Fanout(
        value=name, kind=kind, meta=meta, shape=shape, source=source, gradient=None, readers=tuple(readers),
        forward=forward, regather=regather,
    )  # fmt: skip
