"""A tensor that goes from layer to layer is kept once, and a product makes no gradient that nobody wants."""

import pytest

from planner.compose import train
from planner.core.graph import ModelGraph, ModelSource, Module
from planner.core.json_text import digest
from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.cost.memory import held
from planner.cost.work import model_flops, node_works
from planner.hardware import cluster, precision
from planner.importers.builder import BlockBuilder
from planner.plan import Plan

BATCH, WIDTH, LAYERS = 6, 16, 5
PRECISION = precision("bf16")


def graph(*, folded: bool) -> ModelGraph:
    """Return layers of a product and a ReLU, which keeps its result, as one repeated block or written out."""
    root = BlockBuilder()
    x = root.input("x", TensorMeta((symbol("B"), WIDTH)))
    target = root.input("target", TensorMeta((symbol("B"), WIDTH)))
    (x,) = root.node("first", "linear", x, root.parameter("first.weight", (WIDTH, WIDTH)))
    (x,) = root.node("first/relu", "relu", x)
    if folded:
        inner = BlockBuilder()
        hidden = inner.input("hidden", root.meta(x))
        (y,) = inner.node("layers.*/product", "linear", hidden, inner.parameter("layers.*.weight", (WIDTH, WIDTH)))
        (y,) = inner.node("layers.*/relu", "relu", y)
        (x,) = root.repeat("layers", LAYERS, inner.block(y), x)
    else:
        for i in range(LAYERS):
            (x,) = root.node(f"layers.{i}/product", "linear", x, root.parameter(f"layers.{i}.weight", (WIDTH, WIDTH)))
            (x,) = root.node(f"layers.{i}/relu", "relu", x)
    (x,) = root.node("last", "linear", x, root.parameter("last.weight", (WIDTH, WIDTH)))
    (loss,) = root.node("loss", "mse_loss", x, target, module="")
    paths = ["", "first", "layers", *([f"layers.{i}" for i in range(LAYERS)] if not folded else ["layers.*"]), "last"]
    source = ModelSource(name="handed", kind="test", digest=digest("{}"), content="{}")
    return ModelGraph(
        name="handed", source=source, root=root.block(loss),
        modules=tuple(Module(path=path, class_name="Linear") for path in paths),
    )  # fmt: skip


def plan(*, folded: bool) -> Plan:
    return Plan.new(graph(folded=folded), cluster="1x1-h100-sxm", mesh={"dp": 1}, global_batch=BATCH)


@pytest.mark.parametrize("folded", [True, False])
def test_each_activation_is_kept_once(folded: bool) -> None:
    training = train(plan(folded=folded))
    things = held(training, node_works(training, PRECISION), PRECISION, cluster("1x1-h100-sxm").device)
    kept = sum(t.total for t in things if t.item == "saved activations")
    # x; the results of all ReLUs, each read by the next product; the two operands of the loss.
    assert kept == 2 * BATCH * WIDTH * (1 + 1 + LAYERS + 2)


@pytest.mark.parametrize("folded", [True, False])
def test_no_gradient_for_an_input(folded: bool) -> None:
    training = train(plan(folded=folded))
    works = {work.node.name: work for work in node_works(training, PRECISION)}
    one = 2.0 * BATCH * WIDTH * WIDTH
    assert (works["first"].backward_flops, works["last"].backward_flops) == (one, 2 * one)
    others = sum(
        work.count * (work.op.flops(*work.shapes) + work.backward_flops * bool(work.gradients))
        for work in works.values() if work.node.op != "linear"
    )  # fmt: skip
    assert model_flops(training) == one * (3 * (LAYERS + 2) - 1) + others
