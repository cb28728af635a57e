"""Cut a graph out of whoever calls it: its inputs come from a stage before it, its outputs go to one after it.

```text
stage 0   input · entry        what gives the inputs, and wants their gradients
stage 1   the graph            what is written
stage 2   Σ exit_k · Σ output  what takes the outputs, and gives their gradients
```

So a part of a model is what a stage of a pipeline is, and needs no form of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ..core.graph import ModelGraph, Node, Parameter, Value
from ..core.stage import RECEIVE, received
from ..core.tensor import TensorMeta
from ..errors import ModelError
from ..ops import OPS

MIDDLE = 1
"""The stage that the graph runs on."""
TRAINED = frozenset({"compute", "bfloat16", "float16", "float32", "float64"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A graph in three stages.

    Parameters
    ----------
    entries, exits
        Name of the operator by which each input, or output, comes to the next stage.
    shapes
        Global shape of each output.
    """

    graph: ModelGraph
    entries: tuple[str, ...]
    exits: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]


def cut(graph: ModelGraph, exits: tuple[str, ...]) -> Cut:
    """Return a graph without repeated blocks in three stages.

    Parameters
    ----------
    exits
        Parameters of which each is multiplied by the sum of an output, and by nothing else.

    Raises
    ------
    ModelError
        `model.output-kind` when an output is not computed by the graph.
    """
    graph = _apart(graph)
    root = graph.root
    made = {value.name: node for node in root.nodes for value in node.results}
    uses = [next(node for node in root.nodes if name in node.operands) for name in exits]
    sums = [made[next(operand for operand in use.operands if operand not in exits)] for use in uses]
    if not all(node.op == "sum" and node.operands[0] in made for node in sums):
        raise ModelError(
            "model.output-kind", f"An output of {graph.name} is no value that it computes.",
            "Return tensors that the module computes.", subject=graph.name,
        )  # fmt: skip
    after = {node.name for node in sums} | set(exits)
    for node in root.nodes:
        if after.intersection(node.operands):
            after.add(node.name)
    wanted = _with_gradient(graph)
    heads: list[Node] = []
    arrivals: dict[str, Node] = {}
    parameters: list[Parameter] = []
    for index, value in enumerate(root.inputs):
        head = _head(index, value, with_gradient=value.name in wanted)
        if head.op == "mul":
            parameters.append(Parameter(name=head.operands[1], meta=TensorMeta((), value.meta.dtype)))
        heads.append(head)
        arrivals[value.name] = _receive(head.results[0], MIDDLE)
    leaving = {node.operands[0]: _receive(_value(made, node.operands[0]), MIDDLE + 1) for node in sums}
    inside = tuple(_reading(n, {k: a.name for k, a in arrivals.items()}) for n in root.nodes if n.name not in after)
    tail = tuple(_reading(n, {k: a.name for k, a in leaving.items()}) for n in root.nodes if n.name in after)
    stages = (tuple(heads), (*arrivals.values(), *inside), (*leaving.values(), *tail))
    body = tuple(node for nodes in stages for node in nodes)
    cut_root = replace(root, parameters=(*root.parameters, *parameters), body=body)
    return Cut(
        graph=replace(graph, root=cut_root, stages=tuple(tuple(n.name for n in nodes) for nodes in stages)),
        entries=tuple(arrivals[value.name].name for value in root.inputs),
        exits=tuple(leaving[node.operands[0]].name for node in sums),
        shapes=tuple(_value(made, node.operands[0]).meta.concrete(frozenset()) for node in sums),
    )  # fmt: skip


def _with_gradient(graph: ModelGraph) -> set[str]:
    """Return the values that outputs have a gradient of."""
    wanted = set(graph.root.outputs[:1])
    for node in reversed(graph.root.nodes):
        if wanted.intersection(value.name for value in node.results):
            names = zip(OPS[node.op].operand_names, node.operands, strict=False)
            wanted |= {operand for name, operand in names if name in OPS[node.op].differentiable}
    return wanted


def _head(index: int, value: Value, *, with_gradient: bool) -> Node:
    """Return what gives an input: of one that gets a gradient, something that depends on a parameter."""
    name = f"entry_{index}/given"
    op, operands, metas = RECEIVE, [value.name], [value.meta]
    if with_gradient and value.meta.dtype in TRAINED:
        op = "mul"
        operands.append(f"entry_{index}")
        metas.append(TensorMeta((), value.meta.dtype))
    return Node(
        name=name, op=op, operands=tuple(operands), results=(Value(name=name, meta=value.meta),),
        rule=OPS[op].rule(tuple(metas), (value.meta,), {}), module="",
    )  # fmt: skip


def _receive(value: Value, stage: int) -> Node:
    name, metas = received(value.name, stage), (value.meta,)
    return Node(
        name=name, op=RECEIVE, operands=(value.name,), results=(Value(name=name, meta=value.meta),),
        rule=OPS[RECEIVE].rule(metas, metas, {}), module="",
    )  # fmt: skip


def _value(made: dict[str, Node], name: str) -> Value:
    return next(value for value in made[name].results if value.name == name)


def _reading(node: Node, instead: dict[str, str]) -> Node:
    return replace(node, operands=tuple(instead.get(name, name) for name in node.operands))


def _apart(graph: ModelGraph) -> ModelGraph:
    """Return the graph with names of operators of which none begins another, so that a decision names one of them."""
    names = [node.name for node in graph.root.nodes]
    begun = {other[: match.start()] for other in names for match in re.finditer(r"[./]", other)}
    instead = {name: f"{name}/itself" for name in names if name in begun}

    def renamed(name: str) -> str:
        head, mark, result = name.partition(":")
        return instead.get(head, head) + mark + result

    body = tuple(
        replace(
            node, name=renamed(node.name), operands=tuple(map(renamed, node.operands)),
            results=tuple(replace(value, name=renamed(value.name)) for value in node.results),
        )
        for node in graph.root.nodes
    )  # fmt: skip
    return replace(graph, root=replace(graph.root, body=body, outputs=tuple(map(renamed, graph.root.outputs))))
