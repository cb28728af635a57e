"""A model small enough to count by hand, and the shortest way from it to a training graph.

```text
tokens → embedding → 3 × (x → up → down → + x) → head → cross_entropy → loss
```

Batch B, sequence S, width 16, hidden 32, vocabulary 64.
"""

from __future__ import annotations

from planner.assign import assign
from planner.autodiff import differentiate, fill_buckets
from planner.core.assignment import TrainingGraph
from planner.core.collective import Redistribution, Step
from planner.core.graph import Block, ModelGraph, ModelSource, Node, Parameter, Repeat, Value
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.core.plan import Decisions
from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.cost import step_seconds
from planner.hardware import cluster
from planner.ops import OPS
from planner.redistribution import distribute, plan_redistribution

WIDTH, HIDDEN, VOCAB, LAYERS = 16, 32, 64, 3
B, S = symbol("B"), symbol("S")
STREAM = TensorMeta((B, S, WIDTH))
TOKENS = TensorMeta((B, S), "int64")


def node(op: str, name: str, operands: list[tuple[str, TensorMeta]], **attributes: int) -> Node:
    metas = tuple(meta for _, meta in operands)
    results = OPS[op].infer(metas, attributes)
    return Node(
        name=name,
        op=op,
        operands=tuple(operand for operand, _ in operands),
        results=(Value(name=name, meta=results[0]),),
        attributes=tuple(attributes.items()),
        rule=OPS[op].rule(metas, results, attributes),
        module=name,
    )


def weight(name: str, out: int, into: int) -> Parameter:
    return Parameter(name=name, meta=TensorMeta((out, into)))


def tiny_model(layers: int = LAYERS) -> ModelGraph:
    up, down = weight("layers.*.up.weight", HIDDEN, WIDTH), weight("layers.*.down.weight", WIDTH, HIDDEN)
    table, head = weight("embed.weight", VOCAB, WIDTH), weight("head.weight", VOCAB, WIDTH)
    hidden = TensorMeta((B, S, HIDDEN))
    block = Block(
        inputs=(Value(name="x", meta=STREAM),),
        parameters=(up, down),
        body=(
            node("linear", "layers.*.up", [("x", STREAM), (up.name, up.meta)]),
            node("linear", "layers.*.down", [("layers.*.up", hidden), (down.name, down.meta)]),
            node("add", "layers.*/add", [("x", STREAM), ("layers.*.down", STREAM)]),
        ),
        outputs=("layers.*/add",),
    )
    result = Value(name="stream", meta=STREAM)
    root = Block(
        inputs=(Value(name="tokens", meta=TOKENS), Value(name="labels", meta=TOKENS)),
        parameters=(table, head),
        body=(
            node("embedding", "embed", [("tokens", TOKENS), (table.name, table.meta)]),
            Repeat(name="layers", count=layers, block=block, operands=("embed",), results=(result,)),
            node("linear", "head", [("stream", STREAM), (head.name, head.meta)]),
            node("cross_entropy", "loss", [("head", TensorMeta((B, S, VOCAB))), ("labels", TOKENS)], ignore_index=-100),
        ),
        outputs=("loss",),
    )
    source = ModelSource(name="tiny", kind="test", digest="", content="")
    return ModelGraph(name="tiny", source=source, root=root, modules=(), logits="head")


def plan_edge(
    source: Layout, target: Layout, mesh: DeviceMesh, shape: tuple[int, ...], cluster_name: str = "8x8-h100-sxm"
) -> Redistribution:
    def seconds(step: Step) -> float:
        return step_seconds(step, 2, mesh, cluster(cluster_name))

    return plan_redistribution(source, target, shape, mesh, seconds)


def training_graph(decisions: Decisions, layers: int = LAYERS) -> TrainingGraph:
    assignment = assign(tiny_model(layers), decisions)

    def edge(source: Layout, target: Layout, shape: tuple[int, ...], _dtype: str) -> Redistribution:
        return plan_edge(source, target, decisions.mesh, shape)

    return fill_buckets(differentiate(distribute(assignment, edge), edge), decisions.gradients, 2)
