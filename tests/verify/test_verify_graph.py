"""Every invariant of a graph, each with a graph that breaks only it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from planner.core.graph import Block, ModelGraph, Node, Repeat
from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.importers import load_model, zoo_names
from planner.verify import verify_graph

GRAPH = load_model("llama-tiny")
LAYERS = GRAPH.root.repeats[0]
Body = tuple[Node | Repeat, ...]


@pytest.mark.parametrize("name", zoo_names())
def test_imported_graphs_are_sound(name: str) -> None:
    assert verify_graph(load_model(name)) == ()


def root(**changes: Any) -> ModelGraph:
    return replace(GRAPH, root=replace(GRAPH.root, **changes))


def layers(**changes: Any) -> ModelGraph:
    changed = replace(LAYERS, **changes)
    return root(body=tuple(changed if item is LAYERS else item for item in GRAPH.root.body))


def block(**changes: Any) -> ModelGraph:
    return layers(block=replace(LAYERS.block, **changes))


def node(name: str, /, **changes: Any) -> ModelGraph:
    """Change one operator, in the root or in a layer."""

    def change(body: Body) -> Body:
        return tuple(
            replace(item, **changes) if isinstance(item, Node) and item.name == name else item for item in body
        )

    if name.startswith("model.layers"):
        return block(body=change(LAYERS.block.body))
    return root(body=change(GRAPH.root.body))


def value(name: str, /, **changes: Any) -> ModelGraph:
    blocks: tuple[Block, ...] = (GRAPH.root, LAYERS.block)
    (found,) = (n for b in blocks for n in b.nodes if n.name == name)
    return node(name, results=(replace(found.results[0], **changes), *found.results[1:]))


def swapped(body: Body, first: int, second: int) -> Body:
    items = list(body)
    items[first], items[second] = items[second], items[first]
    return tuple(items)


BATCH, SEQ = symbol("B"), symbol("S")
HIDDEN = LAYERS.block.inputs[0]
UP = "model.layers.*.mlp.up_proj"
UP_NODE = next(n for n in LAYERS.block.nodes if n.name == UP)
Q_NODE = next(n for n in LAYERS.block.nodes if n.name.endswith("q_proj"))

BROKEN: dict[str, tuple[Callable[[], ModelGraph], str, str]] = {
    "digest": (
        lambda: replace(GRAPH, source=replace(GRAPH.source, digest="0")),
        "graph.source-digest",
        "llama-tiny has a digest of other content.",
    ),
    "read before made": (
        lambda: root(body=swapped(GRAPH.root.body, 3, 4)),
        "graph.value-undefined",
        "lm_head reads 'model.norm', before it is made.",
    ),
    "cycle": (
        lambda: node(UP, operands=("model.layers.*.mlp.down_proj", UP_NODE.operands[1])),
        "graph.value-undefined",
        f"{UP} reads 'model.layers.*.mlp.down_proj', before it is made.",
    ),
    "value of another block": (
        lambda: node(UP, operands=("model.embed_tokens", UP_NODE.operands[1])),
        "graph.value-undefined",
        f"{UP} reads 'model.embed_tokens', which its block does not have.",
    ),
    "output never made": (
        lambda: root(outputs=("total",)),
        "graph.value-undefined",
        "total is an output that is never made.",
    ),
    "operator twice": (
        lambda: block(body=(*LAYERS.block.body, LAYERS.block.body[0])),
        "graph.name-repeated",
        "model.layers.*.input_layernorm is the name of 2 operators.",
    ),
    "parameter twice": (
        lambda: root(parameters=(*GRAPH.root.parameters, GRAPH.root.parameters[0])),
        "graph.name-repeated",
        "model.embed_tokens.weight is the name of 2 parameters.",
    ),
    "module twice": (
        lambda: replace(GRAPH, modules=(*GRAPH.modules, GRAPH.modules[1])),
        "graph.name-repeated",
        "model is the name of 2 modules.",
    ),
    "value twice": (
        lambda: root(inputs=(*GRAPH.root.inputs, GRAPH.root.inputs[0])),
        "graph.name-repeated",
        "tokens is made twice in one block.",
    ),
    "result not named like its node": (
        lambda: value("loss", name="total"),
        "graph.result-name",
        "loss calls a result 'total'.",
    ),
    "not named like the layer": (
        lambda: node("model.layers.*/residual_mlp", name="residual_mlp"),
        "graph.layer-name",
        "residual_mlp is repeated, and does not start model.layers.*.",
    ),
    "element type": (
        lambda: block(
            inputs=(
                replace(HIDDEN, meta=replace(HIDDEN.meta, dtype="float7")),
                *LAYERS.block.inputs[1:],
            )
        ),
        "graph.dtype-unknown",
        "hidden has the element type 'float7'.",
    ),
    "unknown symbol": (
        lambda: root(
            inputs=(
                replace(GRAPH.root.inputs[0], meta=TensorMeta((BATCH, symbol("T")), "int64")),
                GRAPH.root.inputs[1],
            )
        ),
        "graph.shape-unknown",
        "tokens has the shape int64[B, T].",
    ),
    "no size": (
        lambda: value("model.embed_tokens", meta=TensorMeta((BATCH, SEQ, 0))),
        "graph.shape-unknown",
        "model.embed_tokens has the shape compute[B, S, 0].",
    ),
    "negative size": (
        lambda: value("model.embed_tokens", meta=TensorMeta((BATCH, SEQ * -1, 64))),
        "graph.shape-unknown",
        "model.embed_tokens has the shape compute[B, -1·S, 64].",
    ),
    "parameter without a fixed size": (
        lambda: root(
            parameters=(
                replace(GRAPH.root.parameters[0], meta=TensorMeta((BATCH, 64))),
                *GRAPH.root.parameters[1:],
            )
        ),
        "graph.shape-unknown",
        "model.embed_tokens.weight is a parameter of compute[B, 64].",
    ),
    "wrong result": (
        lambda: value(UP, meta=TensorMeta((BATCH, SEQ, 127))),
        "graph.result-shape",
        f"{UP} gives compute[B, S, 128], and says compute[B, S, 127].",
    ),
    "operands that don't fit": (
        lambda: node(UP, operands=("hidden", "model.layers.*.mlp.down_proj.weight")),
        "graph.operand-shape",
        f"{UP} can't take compute[B, S, 64], compute[64, 128] (Rule 'batch seq k, n k -> batch "
        "seq n': factor k has sizes 64 and 128.).",
    ),
    "attribute missing": (
        lambda: node("model.layers.*.self_attn/split_q", attributes=()),
        "graph.operand-shape",
        "model.layers.*.self_attn/split_q can't take compute[B, S, 64] ('groups').",
    ),
    "too few operands": (
        lambda: node(UP, operands=("hidden",)),
        "graph.operand-count",
        f"{UP} has 1 operands for ('x', 'weight', 'bias?').",
    ),
    "unknown operator": (
        lambda: node(UP, op="sorcery"),
        "graph.op-unknown",
        f"{UP} is a 'sorcery', no known operator.",
    ),
    "rule of other shapes": (
        lambda: node(UP, rule=Q_NODE.rule),
        "graph.rule",
        f"{UP} has the rule batch seq k, n k -> batch seq n, which is not linear's on these shapes.",
    ),
    "nested repeat": (
        lambda: block(body=(*LAYERS.block.body, replace(LAYERS, name="model.layers.*.more"))),
        "graph.repeat-nested",
        "model.layers.*.more is a repeat within a repeat.",
    ),
    "no iterations": (
        lambda: layers(count=0),
        "graph.repeat-count",
        "model.layers runs 0 times.",
    ),
    "captured value not bound": (
        lambda: layers(operands=LAYERS.operands[:2]),
        "graph.repeat-count",
        "model.layers binds 2 values to 3 inputs and 1 results to 1 outputs.",
    ),
    "captured value of another shape": (
        lambda: layers(operands=(*LAYERS.operands[:2], "model.embed_tokens")),
        "graph.repeat-carry",
        f"model.layers binds 'sin' of {LAYERS.block.inputs[2].meta} to the outer value of compute[B, S, 64].",
    ),
    "carried value of another shape": (
        lambda: block(outputs=("model.layers.*.mlp.up_proj",)),
        "graph.repeat-carry",
        "model.layers binds 'hidden' of compute[B, S, 64] to the output of compute[B, S, 128].",
    ),
    "result of another shape": (
        lambda: layers(results=(replace(LAYERS.results[0], meta=TensorMeta((BATCH, SEQ, 64), "float32")),)),
        "graph.repeat-carry",
        "model.layers binds 'hidden' of compute[B, S, 64] to the result of float32[B, S, 64].",
    ),
    "no loss": (
        lambda: root(outputs=()),
        "graph.loss",
        "llama-tiny has no output, so no loss.",
    ),
    "loss that is no scalar": (
        lambda: root(outputs=("lm_head",)),
        "graph.loss",
        "lm_head is the loss, so it has to be a scalar, not compute[B, S, 256].",
    ),
    "unknown logits": (
        lambda: replace(GRAPH, logits="head"),
        "graph.value-unknown",
        "head is called the logits, and is no value.",
    ),
    "module of a node": (
        lambda: node(UP, module="model.mlp"),
        "graph.module-unknown",
        f"{UP} is of no module of the graph ('model.mlp').",
    ),
    "module of a parameter": (
        lambda: root(
            parameters=(
                *GRAPH.root.parameters,
                replace(GRAPH.root.parameters[0], name="value_head.weight"),
            )
        ),
        "graph.module-unknown",
        "value_head.weight is of no module of the graph ('value_head').",
    ),
    "child before its parent": (
        lambda: replace(GRAPH, modules=(GRAPH.modules[0], *reversed(GRAPH.modules[1:3]))),
        "graph.module-order",
        "model.embed_tokens comes before its parent 'model'.",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_graphs(case: str) -> None:
    make, code, message = BROKEN[case]
    graph = make()
    assert graph != GRAPH
    assert (code, message) in [(d.code, d.message) for d in verify_graph(graph)]


def test_all_findings_come_at_once() -> None:
    graph = replace(value(UP, name="x", meta=TensorMeta((BATCH, SEQ, 127))), logits="head")
    assert {d.code for d in verify_graph(graph)} >= {
        "graph.result-name",
        "graph.result-shape",
        "graph.value-undefined",
        "graph.value-unknown",
    }
