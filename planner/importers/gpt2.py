"""Builds GPT-2's graph from its config, named like Hugging Face modules so state dicts match.

```text
tokens ─ wte ─ + wpe[0 … S−1] ─ drop ─ h ─ ln_f ─ lm_head ─ loss ─ scalar
layer:   h + c_proj(attention(c_attn(n))), n = ln_1(h)
         h + c_proj(gelu(c_fc(n))),        n = ln_2(h)
```

Weights are [in, out], as there. The fused weight of queries, keys and values has a dim for these three, [in, 3, out],
where the file has [in, 3·out]: the same elements in the same order. A layout cuts a dim in contiguous parts, so only
thus can heads of all three lie on one rank. Labels are already shifted.
"""

from __future__ import annotations

from ..core.graph import Block, ModelGraph, ModelSource, Module
from ..core.json_text import digest
from ..core.symbol import symbol
from ..core.tensor import TensorMeta
from .builder import BlockBuilder
from .feeds import language_feeds
from .gpt2_config import ARCHITECTURE, Gpt2Config, gpt2_text

LAYERS = "transformer.h"
LAYER = f"{LAYERS}.*"


def build_gpt2(config: Gpt2Config, name: str) -> ModelGraph:
    """Return the graph of a GPT-2 and its loss.

    Parameters
    ----------
    name
        Name of the graph and of its source.
    """
    content = gpt2_text(config)
    source = ModelSource(name=name, kind="hf_config", digest=digest(content), content=content)
    return ModelGraph(
        name=name, source=source, root=_root(config), modules=_modules(config), logits="lm_head",
        longest_seq=config.n_positions, feeds=language_feeds(config.vocab_size),
    )  # fmt: skip


def _root(config: Gpt2Config) -> Block:
    build = BlockBuilder()
    indices = TensorMeta((symbol("B"), symbol("S")), "int64")
    tokens, labels = build.input("tokens", indices), build.input("labels", indices)
    table = build.parameter("transformer.wte.weight", (config.vocab_size, config.n_embd))
    (x,) = build.node("transformer.wte", "embedding", tokens, table)
    places = build.parameter("transformer.wpe.weight", (config.n_positions, config.n_embd))
    (positions,) = build.node("transformer/positions", "arange", attributes={"sizes": "S"})
    (placed,) = build.node("transformer.wpe", "index_select", places, positions, attributes={"dim": 0})
    (x,) = build.node("transformer/add_positions", "add", x, placed)
    x = _dropped(build, "transformer.drop", x, config.embd_pdrop)
    (x,) = build.repeat(LAYERS, config.n_layer, _layer(config, build.meta(x)), x)
    x = _norm(build, "transformer.ln_f", x, config)
    head = table if config.tie_word_embeddings else build.parameter("lm_head.weight", build.meta(table).shape)
    (logits,) = build.node("lm_head", "linear", x, head)
    (loss,) = build.node("loss", "cross_entropy", logits, labels, module="", attributes={"ignore_index": -100})
    return build.block(loss)


def _layer(config: Gpt2Config, carried: TensorMeta) -> Block:
    build = BlockBuilder()
    hidden = build.input("hidden", carried)
    attended = _attention(build, _norm(build, f"{LAYER}.ln_1", hidden, config), config)
    (middle,) = build.node(f"{LAYER}/residual_attention", "add", hidden, attended)
    fed = _mlp(build, _norm(build, f"{LAYER}.ln_2", middle, config), config)
    (out,) = build.node(f"{LAYER}/residual_mlp", "add", middle, fed)
    return build.block(out)


def _attention(build: BlockBuilder, x: str, config: Gpt2Config) -> str:
    path, width = f"{LAYER}.attn", config.n_embd
    heads = {"groups": config.n_head, "per_group": 1}
    weight = build.parameter(f"{path}.c_attn.weight", (width, 3, width))
    bias = build.parameter(f"{path}.c_attn.bias", (3, width), "zeros")
    (fused,) = build.node(f"{path}.c_attn", "einsum", x, weight, attributes={"equation": "bsk,kpn->bspn"})
    (fused,) = build.node(f"{path}/c_attn_bias", "add", fused, bias)
    parts: list[str] = []
    for index, part in enumerate("qkv"):
        (y,) = build.node(f"{path}/pick_{part}", "select", fused, attributes={"dim": 2, "index": index})
        parts += build.node(f"{path}/split_{part}", "split_heads", y, attributes=heads)
    if config.attn_pdrop:
        # Fused kernels give no mask that other ranks could repeat, so the weights are made and dropped one by one.
        q, k, v = parts
        (scores,) = build.node(f"{path}/scores", "attention_scores", q, k)
        (scores,) = build.node(f"{path}/hide_future", "hide_future", scores)
        (shares,) = build.node(f"{path}/softmax", "softmax", scores, attributes={"dim": 3})
        shares = _dropped(build, f"{path}.attn_dropout", shares, config.attn_pdrop)
        (y,) = build.node(f"{path}/attend", "attend", shares, v)
    else:
        (y,) = build.node(f"{path}/attention", "attention", *parts)
    (y,) = build.node(f"{path}/merge_heads", "merge_heads", y, attributes=heads)
    return _dropped(build, f"{path}.resid_dropout", _product(build, f"{path}.c_proj", y, width), config.resid_pdrop)


def _mlp(build: BlockBuilder, x: str, config: Gpt2Config) -> str:
    path = f"{LAYER}.mlp"
    x = _product(build, f"{path}.c_fc", x, config.n_inner)
    (x,) = build.node(f"{path}.act", "gelu", x, attributes={"approximate": config.approximation})
    return _dropped(build, f"{path}.dropout", _product(build, f"{path}.c_proj", x, config.n_embd), config.resid_pdrop)


def _product(build: BlockBuilder, path: str, x: str, size: int) -> str:
    """Add x·weight + bias; the weight is [in, out]."""
    weight = build.parameter(f"{path}.weight", (build.meta(x).shape[-1], size))
    bias = build.parameter(f"{path}.bias", (size,), "zeros")
    (y,) = build.node(path, "matmul", x, weight)
    parent, _, leaf = path.rpartition(".")
    (y,) = build.node(f"{parent}/{leaf}_bias", "add", y, bias)
    return y


def _norm(build: BlockBuilder, path: str, x: str, config: Gpt2Config) -> str:
    weight = build.parameter(f"{path}.weight", (config.n_embd,), "ones")
    bias = build.parameter(f"{path}.bias", (config.n_embd,), "zeros")
    (y,) = build.node(path, "layer_norm", x, weight, bias, attributes={"eps": config.layer_norm_epsilon})
    return y


def _dropped(build: BlockBuilder, path: str, x: str, share: float) -> str:
    return build.node(path, "dropout", x, attributes={"p": share, "seed": 0})[0] if share else x


def _modules(config: Gpt2Config) -> tuple[Module, ...]:
    activation = {"gelu_new": "NewGELUActivation", "gelu": "GELUActivation"}
    rows = [
        ("", ARCHITECTURE),
        ("transformer", "GPT2Model"),
        ("transformer.wte", "Embedding"),
        ("transformer.wpe", "Embedding"),
        ("transformer.drop", "Dropout"),
        (LAYERS, "ModuleList"),
        (LAYER, "GPT2Block"),
        (f"{LAYER}.ln_1", "LayerNorm"),
        (f"{LAYER}.attn", "GPT2Attention"),
        *((f"{LAYER}.attn.{part}", "Conv1D") for part in ("c_attn", "c_proj")),
        *((f"{LAYER}.attn.{part}", "Dropout") for part in ("attn_dropout", "resid_dropout")),
        (f"{LAYER}.ln_2", "LayerNorm"),
        (f"{LAYER}.mlp", "GPT2MLP"),
        *((f"{LAYER}.mlp.{part}", "Conv1D") for part in ("c_fc", "c_proj")),
        (f"{LAYER}.mlp.act", activation.get(config.activation_function, "GELUTanh")),
        (f"{LAYER}.mlp.dropout", "Dropout"),
        ("transformer.ln_f", "LayerNorm"),
        ("lm_head", "Linear"),
    ]
    return tuple(Module(path=path, class_name=name) for path, name in rows)
