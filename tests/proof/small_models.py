"""Small models of other families than decoders: images, mixtures of experts, recurrent layers, encoders."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planner.core.graph import ModelGraph, ModelSource, Module
from planner.core.json_text import digest
from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.importers.builder import BlockBuilder
from planner.importers.feeds import feeds_of

WIDTH, VOCAB, HEADS, EXPERTS = 32, 16, 4, 4
Body = Callable[[BlockBuilder, str], str]


def model(name: str, body: Body) -> ModelGraph:
    """Return embedding → body → head → loss."""
    build = BlockBuilder()
    indices = TensorMeta((symbol("B"), symbol("S")), "int64")
    tokens, labels = build.input("tokens", indices), build.input("labels", indices)
    (x,) = build.node("embed", "embedding", tokens, build.parameter("embed.weight", (VOCAB, WIDTH)))
    y = body(build, x)
    width = build.meta(y).shape[-1]
    (logits,) = build.node("head", "linear", y, build.parameter("head.weight", (VOCAB, width)))
    (loss,) = build.node("loss", "cross_entropy", logits, labels, attributes={"ignore_index": -100})
    block = build.block(loss)
    return ModelGraph(
        name=name,
        source=ModelSource(name=name, kind="test", digest=digest("{}"), content="{}"),
        root=block,
        modules=tuple(Module(path=path, class_name=path.title() or "Model") for path in _paths(block.nodes)),
        logits=logits,
        feeds=feeds_of(block),
    )


def _paths(nodes: tuple) -> Iterator[str]:  # type: ignore[type-arg]
    yield ""
    yield from dict.fromkeys(node.module for node in nodes)


def images(build: BlockBuilder, x: str) -> str:
    """Heads are channels, positions the rows and what is in a head the columns: grouped convolutions, norm and pool."""
    heads = {"groups": HEADS, "per_group": 1}
    (x,) = build.node("split", "split_heads", x, attributes=heads)
    # A bias before a batch norm would have a gradient of nothing but rounding.
    weight = build.parameter("conv.weight", (8, HEADS, 1, 3))
    (x,) = build.node("conv", "convolution", x, weight, attributes={"padding": (0, 1)})
    scale, shift = build.parameter("norm.weight", (8,)), build.parameter("norm.bias", (8,))
    (x,) = build.node("norm", "batch_norm", x, scale, shift, attributes={"eps": 1e-5})
    (x,) = build.node("act", "silu", x)
    weight, bias = build.parameter("deep.weight", (8, 1, 1, 4)), build.parameter("deep.bias", (8,))
    deep = {"groups": 8, "padding": (0, 1), "stride": (1, 2)}
    (x,) = build.node("deep", "convolution", x, weight, bias, attributes=deep)
    (x,) = build.node("pool", "average_pool", x, attributes={"kernel": (1, 2), "stride": (1, 2)})
    (x,) = build.node("merge", "merge_heads", x, attributes={"groups": 8, "per_group": 1})
    return x


def experts(build: BlockBuilder, x: str) -> str:
    """A router, and experts of two matrices, beside the residual."""
    (logits,) = build.node("router", "linear", x, build.parameter("router.weight", (EXPERTS, WIDTH)))
    (shares,) = build.node("shares", "softmax", logits)
    routing = {"count": 2, "capacity": 3, "normalized": True}
    (weights,) = build.node("route", "route", shares, attributes=routing)
    (y,) = build.node("dispatch", "dispatch", weights, x)
    (y,) = build.node("up", "expert_linear", y, build.parameter("up.weight", (EXPERTS, 48, WIDTH)))
    (y,) = build.node("act", "gelu", y, attributes={"approximate": "none"})
    (y,) = build.node("down", "expert_linear", y, build.parameter("down.weight", (EXPERTS, WIDTH, 48)))
    (y,) = build.node("collect", "collect", weights, y)
    (y,) = build.node("residual", "add", x, y)
    return y


def recurrent(build: BlockBuilder, x: str) -> str:
    """One layer of each kind."""
    for kind, gates in (("lstm", 4), ("gru", 3), ("rnn", 1)):
        shapes = {"weight_input": (gates * WIDTH, WIDTH), "weight_state": (gates * WIDTH, WIDTH)}
        shapes |= {"bias_input": (gates * WIDTH,), "bias_state": (gates * WIDTH,)}
        (x,) = build.node(kind, kind, x, *(build.parameter(f"{kind}.{n}", shape) for n, shape in shapes.items()))
    return x


def encoder(build: BlockBuilder, x: str) -> str:
    """Norm with bias, attention of all keys with a learned bias, gelu, and an operator that no rule knows."""
    (y,) = build.node(
        "norm", "layer_norm", x, build.parameter("norm.weight", (WIDTH,)), build.parameter("norm.bias", (WIDTH,)),
        attributes={"eps": 1e-5},
    )  # fmt: skip
    heads = {"groups": HEADS, "per_group": 1}
    parts = []
    for name in "qkv":
        (z,) = build.node(name, "linear", y, build.parameter(f"{name}.weight", (WIDTH, WIDTH)))
        (z,) = build.node(f"{name}_heads", "split_heads", z, attributes=heads)
        parts.append(z)
    (z,) = build.node("attention", "full_attention", *parts, build.parameter("attention.bias", (1, HEADS, 1, 1)))
    (z,) = build.node("merge", "merge_heads", z, attributes=heads)
    (x,) = build.node("residual", "add", x, z)
    (y,) = build.node("act", "gelu", x, attributes={"approximate": "none"})
    call = {"target": "aten.cumsum.default", "arguments": "x0, 1", "results": f"compute[B, S, {WIDTH}]"}
    (y,) = build.node("total", "unknown", y, attributes=call)
    return y


def latent(build: BlockBuilder, x: str) -> str:
    """Latent attention: keys and values from one narrow latent, and one rotated part of the keys for all heads."""
    heads = {"groups": HEADS, "per_group": 1}
    rotated, plain, values = 4, 8, 8

    def linear(name: str, y: str, width: int) -> str:
        (y,) = build.node(name, "linear", y, build.parameter(f"{name}.weight", (width, build.meta(y).shape[-1])))
        return y

    def split(name: str, y: str, groups: int = HEADS) -> str:
        return build.node(f"{name}_heads", "split_heads", y, attributes=heads | {"groups": groups})[0]

    table = build.node("table", "rotary_table", attributes={"head_dim": rotated, "theta": 1e4})
    latent = build.node(
        "norm", "rms_norm", linear("down", x, 16), build.parameter("norm.weight", (16,)), attributes={"eps": 1e-5}
    )[0]
    (shared,) = build.node("turn_k", "rotary", split("k_turned", linear("k_turned", x, rotated), 1), *table)
    (shared,) = build.node("share", "expand", shared, attributes={"sizes": f"B, {HEADS}, S, {rotated}"})
    keys = split("k", linear("k", latent, HEADS * plain))
    (turned,) = build.node("turn_q", "rotary", split("q_turned", linear("q_turned", x, HEADS * rotated)), *table)
    queries = split("q", linear("q", x, HEADS * plain))
    (q,) = build.node("q_all", "concat", queries, turned, attributes={"dim": 3})
    (k,) = build.node("k_all", "concat", keys, shared, attributes={"dim": 3})
    v = split("v", linear("v", latent, HEADS * values))
    (y,) = build.node("attention", "attention", q, k, v, attributes={"scale": (plain + rotated) ** -0.5})
    (y,) = build.node("merge", "merge_heads", y, attributes=heads)
    return build.node("residual", "add", x, linear("o", y, WIDTH))[0]
