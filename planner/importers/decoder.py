"""Builds a decoder's graph from its config, named like Hugging Face modules so state dicts match.

```text
tokens ─ embed_tokens ─ layers ─ norm ─ lm_head ─ loss ─ scalar
         rotary_emb  ─┘                 labels ─┘
layer:   h + o_proj(attention(rotary(q_proj(n)), rotary(k_proj(n)), v_proj(n))), n = input norm(h)
         h + down_proj(swiglu(gate_proj(n), up_proj(n))),                n = post-attention norm(h)
```

`labels` are already shifted: `labels[b, s]` is the token that follows `tokens[b, s]`, or -100 where
none is to be learnt. (Hugging Face models shift inside; data loaders for pretraining do it once,
outside.)
"""

from __future__ import annotations

from ..core.graph import Attribute, Block, ModelGraph, ModelSource, Module
from ..core.json_text import digest
from ..core.symbol import symbol
from ..core.tensor import TensorMeta
from .builder import BlockBuilder
from .decoder_config import DecoderConfig, config_text
from .feeds import language_feeds

LAYERS = "model.layers"
LAYER = f"{LAYERS}.*"
EMBEDDING_WEIGHT = "model.embed_tokens.weight"


def build_decoder(config: DecoderConfig, name: str) -> ModelGraph:
    """Return the graph of a decoder and its loss.

    Parameters
    ----------
    name
        Name of the graph and of its source.
    """
    content = config_text(config)
    source = ModelSource(name=name, kind="hf_config", digest=digest(content), content=content)
    return ModelGraph(
        name=name, source=source, root=_root(config), modules=_modules(config), logits="lm_head",
        feeds=language_feeds(config.vocab_size),
    )  # fmt: skip


def _root(config: DecoderConfig) -> Block:
    hidden, vocab = config.hidden_size, config.vocab_size
    build = BlockBuilder()
    indices = TensorMeta((symbol("B"), symbol("S")), "int64")
    tokens, labels = build.input("tokens", indices), build.input("labels", indices)
    table = build.parameter(EMBEDDING_WEIGHT, (vocab, hidden))
    (embedded,) = build.node("model.embed_tokens", "embedding", tokens, table)
    cos, sin = build.node("model.rotary_emb", "rotary_table", attributes=_rotary_attributes(config))
    layer = _layer(config, build.meta(embedded), build.meta(cos))
    (out,) = build.repeat(LAYERS, config.num_hidden_layers, layer, embedded, cos, sin)
    normed = _norm(build, "model.norm", out, hidden, config)
    head = table if config.tie_word_embeddings else build.parameter("lm_head.weight", (vocab, hidden))
    (logits,) = build.node("lm_head", "linear", normed, head)
    (loss,) = build.node("loss", "cross_entropy", logits, labels, module="", attributes={"ignore_index": -100})
    return build.block(loss)


def _layer(config: DecoderConfig, carried: TensorMeta, table: TensorMeta) -> Block:
    build = BlockBuilder()
    hidden = build.input("hidden", carried)
    cos, sin = build.input("cos", table), build.input("sin", table)
    normed = _norm(build, f"{LAYER}.input_layernorm", hidden, config.hidden_size, config)
    attended = _attention(build, normed, cos, sin, config)
    (middle,) = build.node(f"{LAYER}/residual_attention", "add", hidden, attended)
    normed = _norm(build, f"{LAYER}.post_attention_layernorm", middle, config.hidden_size, config)
    fed = _experts(build, normed, config) if config.experts else _mlp(build, normed, config)
    (out,) = build.node(f"{LAYER}/residual_mlp", "add", middle, fed)
    return build.block(out)


def _attention(build: BlockBuilder, x: str, cos: str, sin: str, config: DecoderConfig) -> str:
    path = f"{LAYER}.self_attn"
    groups, per_group, width = config.num_key_value_heads, config.per_group, config.head_dim
    heads: dict[str, str] = {}
    for part, shared in (("q", per_group), ("k", 1), ("v", 1)):
        size = groups * shared * width
        y = _linear(build, f"{path}.{part}_proj", x, size, config.qkv_bias)
        (y,) = build.node(
            f"{path}/split_{part}",
            "split_heads",
            y,
            attributes={"groups": groups, "per_group": shared},
        )
        if config.family.qk_norm and part != "v":
            y = _norm(build, f"{path}.{part}_norm", y, width, config)
        if part != "v":
            (y,) = build.node(f"{path}/rotary_{part}", "rotary", y, cos, sin)
        heads[part] = y
    window = config.sliding_window
    (y,) = build.node(
        f"{path}/attention",
        "attention" if window is None else "window_attention",
        *heads.values(),
        attributes={} if window is None else {"window": window},
    )
    (y,) = build.node(
        f"{path}/merge_heads",
        "merge_heads",
        y,
        attributes={"groups": groups, "per_group": per_group},
    )
    return _linear(build, f"{path}.o_proj", y, config.hidden_size, config.output_bias)


def _mlp(build: BlockBuilder, x: str, config: DecoderConfig) -> str:
    path = f"{LAYER}.mlp"
    gate, up = (
        _linear(build, f"{path}.{part}_proj", x, config.intermediate_size, config.mlp_bias) for part in ("gate", "up")
    )
    (y,) = build.node(f"{path}/swiglu", "swiglu", gate, up)
    return _linear(build, f"{path}.down_proj", y, config.hidden_size, config.mlp_bias)


def _experts(build: BlockBuilder, x: str, config: DecoderConfig) -> str:
    """Send tokens to their experts, each of which is a SwiGLU.

    The fused weight of gate and up has a dim for these two, as the one of GPT-2 has for queries, keys and values.
    """
    gate, path, count, width = f"{LAYER}.mlp.gate", f"{LAYER}.mlp.experts", config.experts, config.expert_size
    hidden = config.hidden_size
    weight = build.parameter(f"{gate}.weight", (count, hidden))
    (logits,) = build.node(f"{gate}/logits", "linear", x, weight)
    (shares,) = build.node(f"{gate}/shares", "softmax", logits, attributes={"dim": 2})
    routing = {"count": config.experts_per_token, "normalized": config.normalized_shares}
    (weights,) = build.node(f"{path}/route", "route", shares, attributes=routing)
    (y,) = build.node(f"{path}/dispatch", "dispatch", weights, x)
    weight = build.parameter(f"{path}.gate_up_proj", (count, 2, width, hidden))
    (y,) = build.node(f"{path}/gate_up", "einsum", y, weight, attributes={"equation": "ebsk,epnk->ebspn"})
    gate, up = (
        build.node(f"{path}/pick_{part}", "select", y, attributes={"dim": 3, "index": index})[0]
        for index, part in enumerate(("gate", "up"))
    )
    (y,) = build.node(f"{path}/swiglu", "swiglu", gate, up)
    weight = build.parameter(f"{path}.down_proj", (count, hidden, width))
    (y,) = build.node(f"{path}/down", "expert_linear", y, weight)
    return build.node(f"{path}/collect", "collect", weights, y)[0]


def _linear(build: BlockBuilder, path: str, x: str, size: int, bias: bool) -> str:
    operands = [x, build.parameter(f"{path}.weight", (size, build.meta(x).shape[-1]))]
    if bias:
        operands.append(build.parameter(f"{path}.bias", (size,), "zeros"))
    (y,) = build.node(path, "linear", *operands)
    return y


def _norm(build: BlockBuilder, path: str, x: str, size: int, config: DecoderConfig) -> str:
    weight = build.parameter(f"{path}.weight", (size,), "ones")
    (y,) = build.node(path, "rms_norm", x, weight, attributes={"eps": config.rms_norm_eps})
    return y


def _rotary_attributes(config: DecoderConfig) -> dict[str, Attribute]:
    attributes: dict[str, Attribute] = {"theta": config.rope_theta, "head_dim": config.head_dim}
    if scaling := config.rope_scaling:
        attributes |= {
            "rope_factor": scaling.factor,
            "rope_low_frequency": scaling.low_freq_factor,
            "rope_high_frequency": scaling.high_freq_factor,
            "rope_original_length": scaling.original_max_position_embeddings,
        }
    return attributes


def _modules(config: DecoderConfig) -> tuple[Module, ...]:
    prefix = config.family.prefix
    norm = f"{prefix}RMSNorm"
    projections = [(f"{LAYER}.self_attn.{part}_proj", "Linear") for part in "qkvo"]
    if config.family.qk_norm:
        projections += [(f"{LAYER}.self_attn.{part}_norm", norm) for part in "qk"]
    if config.experts:
        fed = [("", "SparseMoeBlock"), (".gate", "TopKRouter"), (".experts", "Experts")]
        feed_forward = [(f"{LAYER}.mlp{path}", f"{prefix}{name}") for path, name in fed]
        feed_forward.append((f"{LAYER}.mlp.experts.act_fn", "SiLUActivation"))
    else:
        feed_forward = [(f"{LAYER}.mlp", f"{prefix}MLP")]
        feed_forward += [(f"{LAYER}.mlp.{part}_proj", "Linear") for part in ("gate", "up", "down")]
        feed_forward.append((f"{LAYER}.mlp.act_fn", "SiLUActivation"))
    rows = [
        ("", config.architecture),
        ("model", f"{prefix}Model"),
        ("model.embed_tokens", "Embedding"),
        (LAYERS, "ModuleList"),
        (LAYER, f"{prefix}DecoderLayer"),
        (f"{LAYER}.self_attn", f"{prefix}Attention"),
        *projections,
        *feed_forward,
        (f"{LAYER}.input_layernorm", norm),
        (f"{LAYER}.post_attention_layernorm", norm),
        ("model.norm", norm),
        ("model.rotary_emb", f"{prefix}RotaryEmbedding"),
        ("lm_head", "Linear"),
    ]
    return tuple(Module(path=path, class_name=name) for path, name in rows)
