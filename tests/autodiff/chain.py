"""A chain of two linear operators between an embedding and a loss: the smallest graph with every kind of edge."""

from __future__ import annotations

from collections.abc import Mapping

from planner.compose import train
from planner.core.assignment import Fanout, TrainingGraph
from planner.core.graph import ModelGraph, ModelSource, Module
from planner.core.json_text import digest
from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.importers.builder import BlockBuilder
from planner.importers.feeds import language_feeds
from planner.plan import Plan

WIDTH = 8
Axes = Mapping[str, str]


def chain_graph(readers: int = 1) -> ModelGraph:
    """Return tokens → embed → a → b0, b1 … → their sum → loss; every linear has a bias."""
    build = BlockBuilder()
    indices = TensorMeta((symbol("B"), symbol("S")), "int64")
    tokens, labels = build.input("tokens", indices), build.input("labels", indices)
    (x,) = build.node("embed", "embedding", tokens, build.parameter("embed.weight", (WIDTH, WIDTH)))
    (a,) = build.node("a", "linear", x, build.parameter("a.weight", (WIDTH, WIDTH)))
    total = ""
    for i in range(readers):
        weight, bias = build.parameter(f"b{i}.weight", (WIDTH, WIDTH)), build.parameter(f"b{i}.bias", (WIDTH,))
        (b,) = build.node(f"b{i}", "linear", a, weight, bias)
        (total,) = build.node(f"sum{i}", "add", total, b) if total else (b,)
    (loss,) = build.node("loss", "cross_entropy", total, labels, attributes={"ignore_index": -100})
    names = ["", "embed", "a", "loss", *(f"{kind}{i}" for i in range(readers) for kind in ("b", "sum"))]
    return ModelGraph(
        name="chain",
        source=ModelSource(name="chain", kind="test", digest=digest("{}"), content="{}"),
        root=build.block(loss),
        modules=tuple(Module(path=name, class_name=name.title() or "Chain") for name in names),
        logits=total,
        feeds=language_feeds(WIDTH),
    )


def chain(mesh: str, **operators: tuple[Axes, Mapping[str, tuple[int, ...]]]) -> TrainingGraph:
    """Return the training graph of `chain_plan`."""
    return train(chain_plan(mesh, **operators))


def chain_plan(mesh: str, **operators: tuple[Axes, Mapping[str, tuple[int, ...]]]) -> Plan:
    """Return a plan with every factor of the named operators pinned.

    Parameters
    ----------
    operators
        Name → (factor → axes joined by spaces, kept axis → carriers).
    """
    readers = max((int(name[1:]) for name in operators if name[0] == "b"), default=0) + 1
    devices = 1
    for axis in mesh.split(","):
        devices *= int(axis.split(":")[1])
    plan = Plan.new(
        chain_graph(readers), cluster=f"1x{devices}-h100-sxm", mesh=mesh, global_batch=8, seq=8, precision="float64"
    )
    for name, (factors, kept) in operators.items():
        plan = plan.shard(name, {f: tuple(factors.get(f, "").split()) for f in ("batch", "seq", "k", "n")})
        for axis, carriers in kept.items():
            plan = plan.keep(name, axis, carriers)
    return plan


def fanout(training: TrainingGraph, value: str) -> Fanout:
    """Return a value of the root with its readers."""
    return next(f for f in training.scopes[0].fanouts if f.value == value)


def moves(found: Fanout) -> tuple[list[str], list[str]]:
    """Return source, target and kinds of every delivery, forward and backward."""

    def show(deliveries: tuple) -> list[str]:  # type: ignore[type-arg]
        return [
            f"{d.redistribution.source} → {d.redistribution.target}: "
            f"{' '.join(step.kind for step in d.redistribution.steps) or 'none'}"
            for d in deliveries
        ]

    return show(found.forward), show(found.backward)
