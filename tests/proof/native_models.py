"""A decoder of linear layers with biases, layer norms and learnt positions, as plain torch has modules for."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from planner.core.graph import Block, ModelGraph, ModelSource, Module
from planner.core.json_text import digest
from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.importers.builder import BlockBuilder
from planner.importers.feeds import feeds_of

WIDTH, HIDDEN, VOCAB, HEADS, LENGTH = 32, 48, 32, 4, 64
LAYER = "transformer.h.*"
CLASSES = {
    "": "GptLM", "transformer": "Gpt", "transformer.wte": "Embedding", "transformer.wpe": "Embedding",
    "transformer.h": "ModuleList", LAYER: "Block", f"{LAYER}.ln_1": "LayerNorm",
    f"{LAYER}.attn": "Attention", f"{LAYER}.attn.out_proj": "Linear",
    **{f"{LAYER}.attn.{part}_proj": "Linear" for part in "qkv"},
    f"{LAYER}.ln_2": "LayerNorm", f"{LAYER}.mlp": "Mlp", f"{LAYER}.mlp.fc1": "Linear", f"{LAYER}.mlp.fc2": "Linear",
    "transformer.ln_f": "LayerNorm", "lm_head": "Linear",
}  # fmt: skip


@cache
def gpt_like(layers: int = 2) -> ModelGraph:
    """Return the graph of some layers; positions are added to the tokens, and the head has the tokens' table."""
    build = BlockBuilder()
    indices = TensorMeta((symbol("B"), symbol("S")), "int64")
    tokens, labels = build.input("tokens", indices), build.input("labels", indices)
    table = build.parameter("transformer.wte.weight", (VOCAB, WIDTH))
    (x,) = build.node("transformer.wte", "embedding", tokens, table)
    places = build.parameter("transformer.wpe.weight", (LENGTH, WIDTH))
    (positions,) = build.node("transformer/positions", "arange", attributes={"sizes": "S"})
    (placed,) = build.node("transformer.wpe", "embedding", positions, places)
    (x,) = build.node("transformer/add_positions", "add", x, placed)
    (x,) = build.repeat("transformer.h", layers, _layer(build.meta(x)), x)
    x = _norm(build, "transformer.ln_f", x)
    (logits,) = build.node("lm_head", "linear", x, table)
    (loss,) = build.node("loss", "cross_entropy", logits, labels, module="", attributes={"ignore_index": -100})
    root = build.block(loss)
    graph = ModelGraph(
        name="gpt-like", source=ModelSource(name="gpt-like", kind="test", digest=digest("{}"), content="{}"),
        root=root, modules=tuple(Module(path=path, class_name=name) for path, name in CLASSES.items()),
        logits=logits, longest_seq=LENGTH,
    )  # fmt: skip
    return replace(graph, feeds=feeds_of(root))


@cache
def odd(kind: str) -> ModelGraph:
    """Return the graph of a chain of linear layers in which something is read late.

    Parameters
    ----------
    kind
        `skip`: the embedding once more after the layers. `late`: the tokens, by a second embedding after the layers.
        `twice`: one weight by two linear layers after the layers.
    """
    build = BlockBuilder()
    indices = TensorMeta((symbol("B"), symbol("S")), "int64")
    tokens, labels = build.input("tokens", indices), build.input("labels", indices)
    (first,) = build.node("embed", "embedding", tokens, build.parameter("embed.weight", (VOCAB, WIDTH)))
    inner = BlockBuilder()
    hidden = inner.input("hidden", build.meta(first))
    (step,) = inner.node("layers.*.fc", "linear", hidden, inner.parameter("layers.*.fc.weight", (WIDTH, WIDTH)))
    (out,) = inner.node("layers.*/residual", "add", hidden, step)
    (x,) = build.repeat("layers", 4, inner.block(out), first)
    modules = ["embed", "layers.*.fc", "lm_head"]
    if kind == "skip":
        (x,) = build.node("joined", "add", x, first, module="")
    elif kind == "late":
        (more,) = build.node("late", "embedding", tokens, build.parameter("late.weight", (VOCAB, WIDTH)))
        (x,) = build.node("joined", "add", x, more, module="")
        modules.append("late")
    else:
        weight = build.parameter("one.weight", (WIDTH, WIDTH))
        (x,) = build.node("two", "linear", build.node("one", "linear", x, weight)[0], weight)
        modules += ["one", "two"]
    (logits,) = build.node("lm_head", "linear", x, build.parameter("lm_head.weight", (VOCAB, WIDTH)))
    (loss,) = build.node("loss", "cross_entropy", logits, labels, module="", attributes={"ignore_index": -100})
    root = build.block(loss)
    classes = {"": "Odd", "layers": "ModuleList", "layers.*": "Layer"} | dict.fromkeys(modules, "Module")
    graph = ModelGraph(
        name=f"odd-{kind}", source=ModelSource(name=kind, kind="test", digest=digest("{}"), content="{}"),
        root=root, modules=tuple(Module(path=path, class_name=name) for path, name in classes.items()), logits=logits,
    )  # fmt: skip
    return replace(graph, feeds=feeds_of(root))


def _layer(carried: TensorMeta) -> Block:
    build = BlockBuilder()
    hidden = build.input("hidden", carried)
    n = _norm(build, f"{LAYER}.ln_1", hidden)
    heads = {"groups": HEADS, "per_group": 1}
    parts = [
        build.node(f"{LAYER}.attn/split_{part}", "split_heads", _linear(build, f"{LAYER}.attn.{part}_proj", n, WIDTH),
                   attributes=heads)[0]
        for part in "qkv"
    ]  # fmt: skip
    (y,) = build.node(f"{LAYER}.attn/attention", "attention", *parts)
    (y,) = build.node(f"{LAYER}.attn/merge_heads", "merge_heads", y, attributes=heads)
    y = _linear(build, f"{LAYER}.attn.out_proj", y, WIDTH)
    (middle,) = build.node(f"{LAYER}/residual_attention", "add", hidden, y)
    y = _linear(build, f"{LAYER}.mlp.fc1", _norm(build, f"{LAYER}.ln_2", middle), HIDDEN)
    (y,) = build.node(f"{LAYER}.mlp/act", "gelu", y, attributes={"approximate": "none"})
    y = _linear(build, f"{LAYER}.mlp.fc2", y, WIDTH)
    (out,) = build.node(f"{LAYER}/residual_mlp", "add", middle, y)
    return build.block(out)


def _linear(build: BlockBuilder, path: str, x: str, size: int) -> str:
    weight = build.parameter(f"{path}.weight", (size, build.meta(x).shape[-1]))
    return build.node(path, "linear", x, weight, build.parameter(f"{path}.bias", (size,), "zeros"))[0]


def _norm(build: BlockBuilder, path: str, x: str) -> str:
    weight, bias = (
        build.parameter(f"{path}.weight", (WIDTH,), "ones"),
        build.parameter(f"{path}.bias", (WIDTH,), "zeros"),
    )
    return build.node(path, "layer_norm", x, weight, bias, attributes={"eps": 1e-5})[0]
