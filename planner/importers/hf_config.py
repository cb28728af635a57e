"""Reads a Hugging Face `config.json`, without torch or transformers.

What the graph depends on is checked; what can't be planned yet is refused and named; other keys are
passed over, since configs carry many that change no shape (`bos_token_id`, `use_cache`, …). All
problems of a kind come in one error.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..core.json_text import JsonBounds, parse
from ..errors import ModelError
from . import gpt2_config
from .config_fields import Fields, listed, shown
from .decoder_config import DecoderConfig, RopeScaling
from .family import FAMILIES, Family
from .gpt2_config import Gpt2Config, read_gpt2

MAX_BYTES = 1 << 20
BOUNDS = JsonBounds(error=ModelError, prefix="model", max_bytes=MAX_BYTES, max_depth=32)

_REQUIRED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
)


def read_config(text: str, name: str) -> DecoderConfig | Gpt2Config:
    """Return the checked config that `text` holds.

    Parameters
    ----------
    text
        A `config.json`.
    name
        What to call it in messages.

    Raises
    ------
    ModelError
        `model.json-…` if it is no JSON, `model.config-type`, `model.architecture-unsupported`,
        `model.config-missing`, `model.config-value`, `model.heads-not-divisible`, or
        `model.…-unsupported` for what can't be planned yet.
    """
    values = parse(text, name, BOUNDS)
    if not isinstance(values, dict):
        raise ModelError(
            "model.config-type",
            f"{name} holds {shown(values)}, not a JSON object.",
            "Give a Hugging Face config.json.",
        )
    family = _family(values, name)
    if family is None:
        return read_gpt2(values, name)
    if family.experts == "num_experts" and values.get("num_experts") is None:
        # What transformers 5 writes.
        values = values | {"num_experts": values.get("num_local_experts")}
    missing = [key for key in (*_REQUIRED, *family.required) if values.get(key) is None]
    if missing:
        raise ModelError(
            "model.config-missing",
            f"{name} lacks {listed(missing)}, which {family.architecture} needs.",
            "Give what the model's config.json says.",
        )
    config = _config(values, family, name)
    _refuse_unsupported(values, name)
    return config


def _family(values: Mapping[str, object], name: str) -> Family | None:
    """Take the architecture from `architectures`, or from `model_type` if saved without a model; None for GPT-2."""
    named = values.get("architectures") or values.get("model_type")
    first = named[0] if isinstance(named, list) and named else named
    for family in FAMILIES.values():
        if first in (family.architecture, family.model_type):
            return family
    if first in (gpt2_config.ARCHITECTURE, gpt2_config.MODEL_TYPE):
        return None
    supported = f"Supported are {listed([*FAMILIES, gpt2_config.ARCHITECTURE])}."
    if first is None:
        raise ModelError(
            "model.architecture-unsupported",
            f"{name} names no architectures.",
            f"Name one. {supported}",
        )
    raise ModelError(
        "model.architecture-unsupported",
        f"{name} is of the architecture {shown(first)}, which can't be planned yet.",
        supported,
    )


def _config(values: Mapping[str, object], family: Family, name: str) -> DecoderConfig:
    fields = Fields(values)
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    groups = fields.integer("num_key_value_heads", heads)
    head_dim = fields.integer("head_dim", max(1, hidden // heads))
    theta, scaling = _rope(fields, family, name)
    config = DecoderConfig(
        architecture=family.architecture,
        vocab_size=fields.integer("vocab_size"),
        hidden_size=hidden,
        intermediate_size=fields.integer("intermediate_size"),
        num_hidden_layers=fields.integer("num_hidden_layers"),
        num_attention_heads=heads,
        num_key_value_heads=groups,
        head_dim=head_dim,
        max_position_embeddings=fields.integer("max_position_embeddings", family.max_positions),
        rms_norm_eps=fields.number("rms_norm_eps", 1e-6, 0.0, 1.0),
        rope_theta=theta,
        rope_scaling=scaling,
        attention_bias=family.qkv_bias is None and fields.flag("attention_bias"),
        mlp_bias=family.mlp_bias and fields.flag("mlp_bias"),
        tie_word_embeddings=fields.flag("tie_word_embeddings"),
        sliding_window=_window(values, fields, family, name),
        experts=fields.integer(family.experts) if family.experts else 0,
        experts_per_token=fields.integer("num_experts_per_tok") if family.experts else 0,
        expert_size=fields.integer(family.expert_size) if family.experts else 0,
        # Qwen3's default, and what Mixtral always does.
        normalized_shares=fields.flag("norm_topk_prob") if family.experts == "num_experts" else True,
    )
    if config.experts_per_token > config.experts:
        fields.problems.append(
            f"num_experts_per_tok is {config.experts_per_token}, more than the {config.experts} of {family.experts}"
        )
    if fields.problems:
        raise ModelError(
            "model.config-value",
            f"In {name}, {'; '.join(fields.problems)}.",
            "Write values in these ranges.",
        )
    _check_heads(values, config, name)
    return config


def _check_heads(values: Mapping[str, object], config: DecoderConfig, name: str) -> None:
    problems = []
    heads, groups = config.num_attention_heads, config.num_key_value_heads
    if heads % groups:
        problems.append(f"num_attention_heads {heads} is no multiple of num_key_value_heads {groups}")
    if values.get("head_dim") is None and config.hidden_size % heads:
        problems.append(f"hidden_size {config.hidden_size} is no multiple of num_attention_heads {heads}")
    elif config.head_dim % 2:
        problems.append(f"the head dim {config.head_dim} is odd, and rotary positions turn pairs")
    if problems:
        raise ModelError(
            "model.heads-not-divisible",
            f"In {name}, {'; '.join(problems)}.",
            "Change one of the numbers, or give head_dim if heads do not add up to hidden_size.",
        )


def _rope(fields: Fields, family: Family, name: str) -> tuple[float, RopeScaling | None]:
    """Read `rope_theta` and `rope_scaling`, or `rope_parameters`: both, since transformers 5."""
    key = "rope_parameters" if fields.values.get("rope_parameters") is not None else "rope_scaling"
    rope = fields.values.get(key)
    if rope is None:
        rope = {}
    if not isinstance(rope, dict):
        fields.problems.append(f"{key} is {shown(rope)}, not an object")
        return 1.0, None
    inner = Fields(rope, f"{key}.")
    outer_theta = fields.number("rope_theta", family.missing_theta, 1.0, 1e12)
    theta = inner.number("rope_theta", outer_theta, 1.0, 1e12)
    kind = rope.get("rope_type") or rope.get("type") or "default"
    scaling = None
    if kind == "llama3":
        scaling = RopeScaling(
            factor=inner.number("factor", 8.0, 1.0, 1e6),
            low_freq_factor=inner.number("low_freq_factor", 1.0, 1e-6, 1e6),
            high_freq_factor=inner.number("high_freq_factor", 4.0, 1e-6, 1e6),
            original_max_position_embeddings=inner.integer("original_max_position_embeddings", 8192),
        )
        absent = [f for f in RopeScaling.__dataclass_fields__ if rope.get(f) is None]
        inner.problems += [f"{key}.{field} is missing" for field in absent]
        if scaling.high_freq_factor <= scaling.low_freq_factor:
            inner.problems.append(f"{key}.high_freq_factor is not above low_freq_factor")
    elif kind != "default":
        raise ModelError(
            "model.rope-scaling-unsupported",
            f"{name} scales rotary positions by {shown(kind)}; only llama3 can be planned yet.",
            f'Set "{key}" to null to plan without: shapes, memory and time stay the same.',
        )
    fields.problems += inner.problems
    return theta, scaling


def _refuse_unsupported(values: Mapping[str, object], name: str) -> None:
    """Refuse keys that would change the computation in a way that a plan does not hold."""
    rope = values.get("rope_parameters")
    within = rope if isinstance(rope, dict) else {}
    for key, code, good, only, remedy in (
        ("hidden_act", "activation", ("silu", "swish"), "silu, as in SwiGLU,", '"silu"'),
        ("attention_dropout", "dropout", (0,), "attention without dropout", "0.0"),
        ("partial_rotary_factor", "partial-rotary", (1,), "rotary positions on whole heads", "1.0"),
        ("decoder_sparse_step", "dense-layers", (1,), "a model with experts in every layer", "1"),
        ("mlp_only_layers", "dense-layers", ([],), "a model with experts in every layer", "[]"),
        ("output_router_logits", "router-loss", (False,), "a loss without a part for the router", "false"),
        ("router_jitter_noise", "router-jitter", (0,), "routing without noise", "0.0"),
        ("quantization_config", "quantization", (), "a model that is not quantized", "null"),
    ):
        value = values.get(key, within.get(key))
        if value is not None and value not in good:
            raise ModelError(
                f"model.{code}-unsupported",
                f"{name} sets {key} to {shown(value)}; only {only} can be planned yet.",
                f'Set "{key}" to {remedy} if that is close enough.',
            )


def _window(values: Mapping[str, object], fields: Fields, family: Family, name: str) -> int | None:
    """Return the sliding window of every layer, or None where attention reaches as far as the longest sequence."""
    if family.window == "never" or (family.window.startswith("flag") and values.get("use_sliding_window") is not True):
        return None
    # Null means no window; a missing key is not the same everywhere.
    if values.get("sliding_window", family.missing_window) is None:
        return None
    window = fields.integer("sliding_window", 4096)
    if window >= fields.integer("max_position_embeddings", family.max_positions):
        return None
    kinds = _layer_kinds(values, fields, family)
    if kinds == {"full_attention"}:
        return None
    if kinds == {"sliding_attention"}:
        return window
    remedy = '"use_sliding_window" to false' if family.window == "flag" else '"sliding_window" to null'
    raise ModelError(
        "model.sliding-window-unsupported",
        f"{name} attends over a sliding window of {window} in some layers and to all keys in others, which can't be "
        "planned yet: the layers of a model are one repeated block.",
        f"Set {remedy} to plan full causal attention, which computes the same while seq is at most the window.",
    )


def _layer_kinds(values: Mapping[str, object], fields: Fields, family: Family) -> set[str]:
    """Return what kinds of attention the layers have."""
    if family.window != "flag":
        return {"sliding_attention"}
    layers = values.get("layer_types")
    if layers is None:
        # A missing key means 28 to transformers.
        full, count = fields.index("max_window_layers", 28), fields.integer("num_hidden_layers")
        return {"sliding_attention" if layer >= full else "full_attention" for layer in (0, count - 1)}
    known = ("full_attention", "sliding_attention")
    if not isinstance(layers, list) or not layers or any(kind not in known for kind in layers):
        fields.problems.append(f"layer_types is {shown(layers)}, not a list of {' and '.join(known)}")
        return {known[0]}
    return set(layers)
