"""Reads a Hugging Face `config.json`, without torch or transformers.

What the graph depends on is checked; what can't be planned yet is refused and named; other keys are passed over, since
configs carry many that change no shape (`bos_token_id`, `use_cache`, …). All problems of a kind come in one error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from ..core.json_text import JsonBounds, canonical, parse
from ..errors import ModelError
from .decoder_config import DecoderConfig, RopeScaling
from .family import FAMILIES, Family

T = TypeVar("T")

MAX_BYTES = 1 << 20
BOUNDS = JsonBounds(error=ModelError, prefix="model", max_bytes=MAX_BYTES, max_depth=32)

_REQUIRED = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
# Far above any model, and low enough that products of sizes stay readable.
_LARGEST = {
    "vocab_size": 1 << 24,
    "hidden_size": 1 << 20,
    "intermediate_size": 1 << 22,
    "num_hidden_layers": 10_000,
    "num_attention_heads": 1 << 16,
    "num_key_value_heads": 1 << 16,
    "head_dim": 1 << 16,
    "max_position_embeddings": 1 << 40,
    "original_max_position_embeddings": 1 << 40,
}


def read_config(text: str, name: str) -> DecoderConfig:
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
        `model.config-missing`, `model.config-value`, `model.heads-not-divisible`, or `model.…-unsupported` for what
        can't be planned yet.
    """
    values = parse(text, name, BOUNDS)
    if not isinstance(values, dict):
        raise ModelError(
            "model.config-type",
            f"{name} holds {_shown(values)}, not a JSON object.",
            "Give a Hugging Face config.json.",
        )
    family = _family(values, name)
    missing = [key for key in (*_REQUIRED, *family.required) if values.get(key) is None]
    if missing:
        raise ModelError(
            "model.config-missing",
            f"{name} lacks {_listed(missing)}, which {family.architecture} needs.",
            "Add them with the model's sizes." if len(missing) > 1 else "Add it with the model's size.",
        )
    config = _config(values, family, name)
    _refuse_unsupported(values, name)
    _refuse_window(values, config, name)
    return config


def _family(values: Mapping[str, object], name: str) -> Family:
    """Take the architecture from `architectures`, or from `model_type` where a config was saved without a model."""
    named = values.get("architectures") or values.get("model_type")
    first = named[0] if isinstance(named, list) and named else named
    for family in FAMILIES.values():
        if first in (family.architecture, family.model_type):
            return family
    supported = f"Supported are {_listed(list(FAMILIES))}."
    if first is None:
        raise ModelError(
            "model.architecture-unsupported", f"{name} names no architectures.", f"Name one. {supported}"
        )
    raise ModelError(
        "model.architecture-unsupported",
        f"{name} is of the architecture {_shown(first)}, which can't be planned yet.",
        supported,
    )


class _Fields:
    """Reads fields one by one and remembers every problem, so that one error can name all."""

    def __init__(self, values: Mapping[str, object], prefix: str = "") -> None:
        self.values = values
        self.prefix = prefix
        self.problems: list[str] = []

    def integer(self, key: str, default: int = 1) -> int:
        value = self.values.get(key)
        # bool is an int to isinstance.
        if type(value) is int and 1 <= value <= _LARGEST[key]:
            return value
        return self._wrong(key, value, default, f"an integer from 1 to {_LARGEST[key]:,}")

    def number(self, key: str, default: float, least: float, most: float) -> float:
        value = self.values.get(key)
        if type(value) in (int, float) and isinstance(value, int | float) and least <= value <= most:
            return float(value)
        return self._wrong(key, value, default, f"a number from {least:g} to {most:g}")

    def flag(self, key: str) -> bool:
        value = self.values.get(key)
        return value if isinstance(value, bool) else self._wrong(key, value, False, "true or false")

    def _wrong(self, key: str, value: object, default: T, wanted: str) -> T:
        if value is not None:
            self.problems.append(f"{self.prefix}{key} is {_shown(value)}, not {wanted}")
        return default


def _config(values: Mapping[str, object], family: Family, name: str) -> DecoderConfig:
    fields = _Fields(values)
    hidden, heads = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    groups = fields.integer("num_key_value_heads", heads)
    head_dim = fields.integer("head_dim", max(1, hidden // heads))
    theta, scaling = _rope(fields, name)
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
    )
    if fields.problems:
        raise ModelError(
            "model.config-value", f"In {name}, {'; '.join(fields.problems)}.", "Write values in these ranges."
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


def _rope(fields: _Fields, name: str) -> tuple[float, RopeScaling | None]:
    """Read `rope_theta` and `rope_scaling`, or `rope_parameters`, which holds both since transformers 5."""
    key = "rope_parameters" if fields.values.get("rope_parameters") is not None else "rope_scaling"
    rope = fields.values.get(key)
    if rope is None:
        rope = {}
    if not isinstance(rope, dict):
        fields.problems.append(f"{key} is {_shown(rope)}, not an object")
        return 1.0, None
    inner = _Fields(rope, f"{key}.")
    outer_theta = fields.number("rope_theta", 10_000.0, 1.0, 1e12)
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
            f"{name} scales rotary positions by {_shown(kind)}; only llama3 and no scaling can be planned yet.",
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
        ("quantization_config", "quantization", (), "a model that is not quantized", "null"),
    ):
        value = values.get(key, within.get(key))
        if value is not None and value not in good:
            raise ModelError(
                f"model.{code}-unsupported",
                f"{name} sets {key} to {_shown(value)}; only {only} can be planned yet.",
                f'Set "{key}" to {remedy} if that is close enough.',
            )


def _refuse_window(values: Mapping[str, object], config: DecoderConfig, name: str) -> None:
    """Refuse attention over a sliding window, unless it is at least as long as the longest sequence."""
    use = config.family.window
    if use == "never" or (use == "flag" and values.get("use_sliding_window") is not True):
        return
    # A missing key means 4096 to transformers; null means no window.
    window = values.get("sliding_window", 4096)
    longest = config.max_position_embeddings
    if window is None or (type(window) is int and window >= longest):
        return
    remedy = '"sliding_window" to null' if use == "always" else '"use_sliding_window" to false'
    given = "" if "sliding_window" in values else ", the default where config.json does not give it"
    raise ModelError(
        "model.sliding-window-unsupported",
        f"{name} attends over a sliding window (sliding_window {_shown(window)}{given}, for sequences up to {longest}), "
        "which can't be planned yet.",
        f"Set {remedy} to plan full causal attention, which computes the same while seq is at most the window.",
    )


def _listed(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _shown(value: object) -> str:
    """Write a value of a stranger's file in a message: as JSON would, and short."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = canonical(value)
    return text if len(text) <= 40 else text[:37] + "…"
