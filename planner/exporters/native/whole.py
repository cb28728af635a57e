"""The model of a plan on one rank, as a training graph that moves nothing: what its user wrote.

The plan's own graph has its operators cut into parts and its layers into runs; here they are whole again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...core.assignment import (
    Assembly,
    AssignedNode,
    Assignment,
    Fanout,
    ParameterLayout,
    Reader,
    Scope,
    Symbols,
    TrainingGraph,
)  # fmt: skip
from ...core.graph import Block, ModelGraph, Node, Repeat
from ...core.layout import Layout
from ...core.mesh import DeviceMesh
from ...core.strategy import ShardStrategy
from ...core.tensor import TensorMeta

ALONE = DeviceMesh.of({"whole": 1})
RETURNED = "the caller"
"""Name of what reads the loss."""


def whole(graph: ModelGraph, symbols: Symbols) -> TrainingGraph:
    """Return the training graph of a model on one rank, one run for each repeated block."""
    root = graph.root
    runs = [_run(repeat, position) for position, repeat in enumerate(root.repeats)]
    assemblies = (_assembly("", root), *runs)
    return TrainingGraph(
        assignment=Assignment(graph=graph, mesh=ALONE, symbols=symbols, assemblies=assemblies),
        scopes=tuple(
            Scope(assembly=assembly, fanouts=tuple(_fanouts(index, assemblies, block)))
            for index, (assembly, block) in enumerate(
                zip(assemblies, (root, *(repeat.block for repeat in root.repeats)), strict=True)
            )
        ),
    )


def _assembly(name: str, block: Block) -> Assembly:
    return Assembly(
        name=name,
        nodes=tuple(_assigned(node) for node in block.nodes),
        parameters=tuple(
            ParameterLayout(parameter=p, storage=layout, gradient=layout, optimizer=layout)
            for p in block.parameters
            for layout in (_of(p.meta),)
        ),
        inputs=tuple((value.name, value.meta, _of(value.meta)) for value in block.inputs),
    )


def _run(repeat: Repeat, position: int) -> Assembly:
    made, block = _assembly(repeat.name, repeat.block), repeat.block
    carried = len(repeat.results)
    names = [value.name for value in block.inputs]
    return Assembly(
        name=repeat.name, stop=repeat.count, nodes=made.nodes, parameters=made.parameters,
        inputs=made.inputs[:carried], carried=tuple(zip(names[:carried], block.outputs, strict=True)),
        operands=tuple(zip(names, repeat.operands, strict=True)),
        results=tuple(value.name for value in repeat.results), position=position, period=repeat.period,
    )  # fmt: skip


def _assigned(node: Node) -> AssignedNode:
    operands = tuple(Layout.replicated(len(tensor)) for tensor in node.rule.operands)
    results = tuple(Layout.replicated(len(tensor)) for tensor in node.rule.results)
    return AssignedNode(node=node, strategy=ShardStrategy(), operands=operands, results=results)


def _of(meta: TensorMeta) -> Layout:
    return Layout.replicated(len(meta.shape))


def _fanouts(index: int, assemblies: tuple[Assembly, ...], block: Block) -> Iterator[Fanout]:
    """Yield every value of a scope with its readers."""
    readers: dict[str, list[tuple[str, int, int]]] = {}
    _read(readers, assemblies[index].nodes, index, None)
    own = assemblies[index]
    for position, (_, output) in enumerate(own.carried):
        readers.setdefault(output, []).append((own.title, position, index))
    if not index:
        for place, run in enumerate(assemblies[1:], start=1):
            for position, (_, outer) in enumerate(run.operands[: len(run.inputs)]):
                readers.setdefault(outer, []).append((run.title, position, place))
            _read(readers, run.nodes, place, dict(run.operands[len(run.inputs) :]))
        readers.setdefault(block.outputs[0], []).append((RETURNED, 0, 0))
    metas = {value.name: (value.meta, "activation") for item in block.body for value in item.results}
    metas |= {name: (meta, "input") for name, meta, _ in own.inputs}
    metas |= {p.parameter.name: (p.parameter.meta, "parameter") for p in own.parameters}
    for name, (meta, kind) in metas.items():
        layout = _of(meta)
        if name not in readers:
            continue
        yield Fanout(
            value=name, kind=kind, meta=meta, shape=(), source=layout, gradient=layout,
            readers=tuple(
                Reader(node=node, operand=operand, layout=layout, raw=layout, scope=scope)
                for node, operand, scope in readers.get(name, ())
            ),
        )  # fmt: skip


def _read(
    readers: dict[str, list[tuple[str, int, int]]], nodes: tuple[AssignedNode, ...], scope: int,
    outer: Mapping[str, str] | None,
) -> None:  # fmt: skip
    """Note what nodes read; of inner nodes, only the values that `outer` names, under their outer names."""
    for assigned in nodes:
        for position, name in enumerate(assigned.node.operands):
            if outer is None or name in outer:
                value = name if outer is None else outer[name]
                readers.setdefault(value, []).append((assigned.node.name, position, scope))
