"""Reading config.json: what is taken, and every refusal with its words."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import ModelError
from planner.importers.build import text_of
from planner.importers.decoder_config import DecoderConfig, RopeScaling, config_text
from planner.importers.family import FAMILIES, Family
from planner.importers.hf_config import read_config

TINY: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
MISTRAL = TINY | {"architectures": ["MistralForCausalLM"], "sliding_window": None}
QWEN2 = TINY | {"architectures": ["Qwen2ForCausalLM"]}
EXPERTS = TINY | {
    "architectures": ["Qwen3MoeForCausalLM"], "head_dim": 4, "num_experts": 4, "num_experts_per_tok": 2,
    "moe_intermediate_size": 8,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def read(values: dict[str, Any]) -> DecoderConfig:
    config = read_config(json.dumps(values), "x.json")
    assert isinstance(config, DecoderConfig)
    return config


def test_defaults_are_those_of_transformers() -> None:
    config = read({k: v for k, v in TINY.items() if k != "num_key_value_heads"})
    assert (config.num_key_value_heads, config.head_dim) == (4, 4)
    assert (config.rms_norm_eps, config.rope_theta, config.rope_scaling) == (1e-6, 10_000.0, None)
    assert not config.tie_word_embeddings
    assert not config.qkv_bias
    assert not config.mlp_bias


def test_the_model_type_will_do_without_architectures() -> None:
    values = TINY | {"architectures": None, "model_type": "llama"}
    assert read(values) == read(TINY)


def test_rope_in_both_forms() -> None:
    flat = read(TINY | {"rope_theta": 5e5, "rope_scaling": LLAMA3})
    nested = read(TINY | {"rope_parameters": LLAMA3 | {"rope_theta": 5e5}})
    assert flat == nested
    assert flat.rope_scaling == RopeScaling(
        factor=8.0,
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    )


def test_the_older_name_of_the_rope_type() -> None:
    assert read(TINY | {"rope_scaling": {"type": "default"}}).rope_scaling is None


@pytest.mark.parametrize(
    "values",
    [
        MISTRAL | {"sliding_window": 4096, "max_position_embeddings": 4096},
        QWEN2 | {"sliding_window": 128, "use_sliding_window": False},
        QWEN2 | {"sliding_window": 40_000, "use_sliding_window": True},
        # Windows start at layer 28 if config.json does not say where, and here are two.
        QWEN2 | {"sliding_window": 8, "use_sliding_window": True},
        # The class of Llama models knows no window.
        TINY | {"sliding_window": 4},
    ],
)
def test_a_window_that_limits_nothing_is_none(values: dict[str, Any]) -> None:
    assert read(values).sliding_window is None


LAYERS = ["sliding_attention", "sliding_attention"]


@pytest.mark.parametrize(
    ("values", "window"),
    [
        (MISTRAL | {"sliding_window": 16}, 16),
        # The default where config.json does not give it.
        (TINY | {"architectures": ["MistralForCausalLM"]}, 4096),
        (QWEN2 | {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 0}, 8),
        (QWEN2 | {"use_sliding_window": True, "layer_types": LAYERS}, 4096),
    ],
)
def test_a_window_of_every_layer_is_taken(values: dict[str, Any], window: int) -> None:
    assert read(values).sliding_window == window


REFUSED = [
    (
        QWEN2 | {"use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 1},
        "model.sliding-window-unsupported",
        "x.json attends over a sliding window of 4096 in some layers and to all keys in others, which can't be planned "
        'yet: the layers of a model are one repeated block. Set "use_sliding_window" to false to plan full causal '
        "attention, which computes the same while seq is at most the window.",
    ),
    (
        QWEN2 | {"use_sliding_window": True, "layer_types": ["chunked"], "sliding_window": 0},
        "model.config-value",
        "In x.json, sliding_window is 0, not an integer from 1 to 1,099,511,627,776; layer_types is a list, not a list "
        "of full_attention and sliding_attention. Write values in these ranges.",
    ),
    (
        TINY | {"architectures": ["T5ForConditionalGeneration"]},
        "model.architecture-unsupported",
        'x.json is of the architecture "T5ForConditionalGeneration", which can\'t be planned yet. '
        "Supported are LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
        "Qwen3ForCausalLM, MixtralForCausalLM, Qwen3MoeForCausalLM and GPT2LMHeadModel.",
    ),
    (
        {"hidden_size": 4},
        "model.architecture-unsupported",
        "x.json names no architectures. Name one. Supported are LlamaForCausalLM, "
        "MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, MixtralForCausalLM, Qwen3MoeForCausalLM and "
        "GPT2LMHeadModel.",
    ),
    (
        {"architectures": ["Qwen3ForCausalLM"], "hidden_size": 4, "vocab_size": None},
        "model.config-missing",
        "x.json lacks vocab_size, intermediate_size, num_hidden_layers, num_attention_heads, "
        "num_key_value_heads and head_dim, which Qwen3ForCausalLM needs. Give what the model's "
        "config.json says.",
    ),
    (
        TINY | {"hidden_size": "16", "num_hidden_layers": 20_000, "vocab_size": 2.5},
        "model.config-value",
        'In x.json, hidden_size is "16", not an integer from 1 to 1,048,576; vocab_size is 2.5, '
        "not an integer from 1 to 16,777,216; num_hidden_layers is 20000, not an integer from 1 "
        "to 10,000. Write values in these ranges.",
    ),
    (
        TINY | {"num_attention_heads": True, "attention_bias": "no", "rms_norm_eps": "small"},
        "model.config-value",
        "In x.json, num_attention_heads is true, not an integer from 1 to 65,536; rms_norm_eps is "
        '"small", not a number from 0 to 1; attention_bias is "no", not true or false. Write '
        "values in these ranges.",
    ),
    (
        TINY | {"num_hidden_layers": 0, "rope_scaling": 8},
        "model.config-value",
        "In x.json, rope_scaling is 8, not an object; num_hidden_layers is 0, not an integer from "
        "1 to 10,000. Write values in these ranges.",
    ),
    (
        TINY | {"rope_scaling": {"rope_type": "llama3", "factor": 0, "high_freq_factor": 1.0}},
        "model.config-value",
        "In x.json, rope_scaling.factor is 0, not a number from 1 to 1e+06; "
        "rope_scaling.low_freq_factor is missing; rope_scaling.original_max_position_embeddings is "
        "missing; rope_scaling.high_freq_factor is not above low_freq_factor. Write values in "
        "these ranges.",
    ),
    (
        TINY | {"num_key_value_heads": 3},
        "model.heads-not-divisible",
        "In x.json, num_attention_heads 4 is no multiple of num_key_value_heads 3. Change one of "
        "the numbers, or give head_dim if heads do not add up to hidden_size.",
    ),
    (
        TINY | {"hidden_size": 18},
        "model.heads-not-divisible",
        "In x.json, hidden_size 18 is no multiple of num_attention_heads 4. Change one of the "
        "numbers, or give head_dim if heads do not add up to hidden_size.",
    ),
    (
        TINY | {"head_dim": 5},
        "model.heads-not-divisible",
        "In x.json, the head dim 5 is odd, and rotary positions turn pairs. Change one of the "
        "numbers, or give head_dim if heads do not add up to hidden_size.",
    ),
    (
        TINY | {"rope_scaling": {"type": "yarn", "factor": 4.0}},
        "model.rope-scaling-unsupported",
        'x.json scales rotary positions by "yarn"; only llama3 can be planned yet. Set '
        '"rope_scaling" to null to plan without: shapes, memory and time stay the same.',
    ),
    (
        TINY | {"hidden_act": "gelu"},
        "model.activation-unsupported",
        'x.json sets hidden_act to "gelu"; only silu, as in SwiGLU, can be planned yet. Set '
        '"hidden_act" to "silu" if that is close enough.',
    ),
    (
        TINY | {"attention_dropout": 0.1},
        "model.dropout-unsupported",
        "x.json sets attention_dropout to 0.1; only attention without dropout can be planned yet. "
        'Set "attention_dropout" to 0.0 if that is close enough.',
    ),
    (
        TINY | {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
        "model.partial-rotary-unsupported",
        "x.json sets partial_rotary_factor to 0.5; only rotary positions on whole heads can be "
        'planned yet. Set "partial_rotary_factor" to 1.0 if that is close enough.',
    ),
    (
        EXPERTS | {"num_experts_per_tok": 5},
        "model.config-value",
        "In x.json, num_experts_per_tok is 5, more than the 4 of num_experts. Write values in these ranges.",
    ),
    (
        EXPERTS | {"decoder_sparse_step": 2},
        "model.dense-layers-unsupported",
        "x.json sets decoder_sparse_step to 2; only a model with experts in every layer can be planned yet. Set "
        '"decoder_sparse_step" to 1 if that is close enough.',
    ),
    (
        EXPERTS | {"mlp_only_layers": [0]},
        "model.dense-layers-unsupported",
        "x.json sets mlp_only_layers to a list; only a model with experts in every layer can be planned yet. Set "
        '"mlp_only_layers" to [] if that is close enough.',
    ),
    (
        EXPERTS | {"output_router_logits": True},
        "model.router-loss-unsupported",
        "x.json sets output_router_logits to true; only a loss without a part for the router can be planned yet. Set "
        '"output_router_logits" to false if that is close enough.',
    ),
    (
        EXPERTS | {"router_jitter_noise": 0.1},
        "model.router-jitter-unsupported",
        "x.json sets router_jitter_noise to 0.1; only routing without noise can be planned yet. Set "
        '"router_jitter_noise" to 0.0 if that is close enough.',
    ),
    (
        TINY | {"quantization_config": {"bits": 4}},
        "model.quantization-unsupported",
        "x.json sets quantization_config to an object; only a model that is not quantized can be "
        'planned yet. Set "quantization_config" to null if that is close enough.',
    ),
]


@pytest.mark.parametrize(("values", "code", "message"), REFUSED)
def test_refusals(values: dict[str, Any], code: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(values)
    assert (caught.value.code, str(caught.value)) == (code, message)


def test_a_list_is_no_config() -> None:
    with pytest.raises(ModelError, match=r"^x\.json holds a list, not a JSON object\. Give a"):
        read_config("[]", "x.json")


def test_a_broken_file_says_where() -> None:
    with pytest.raises(ModelError) as caught:
        read_config('{\n  "hidden_size": 4096,\n  oops\n}', "x.json")
    assert caught.value.code == "model.json-syntax"
    assert "at line 3, column 3" in str(caught.value)


def mixture(draw: st.DrawFn, family: Family) -> dict[str, Any]:
    """Draw how the experts of a family are; Mixtral has one width for both, and always normalizes."""
    if not family.experts:
        return {}
    count = draw(st.integers(1, 6))
    own = family.expert_size != "intermediate_size"
    chosen = {"experts": count, "experts_per_token": draw(st.integers(1, count))}
    return chosen | {"expert_size": draw(st.integers(1, 6)) if own else 3,
                     "normalized_shares": draw(st.booleans()) if own else True}  # fmt: skip


@st.composite
def configs(draw: st.DrawFn) -> DecoderConfig:
    small = st.integers(1, 6)
    family = FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))]
    groups, longest = draw(small), draw(st.integers(2, 1 << 40))
    scaling = RopeScaling(
        factor=draw(st.floats(1, 64)),
        low_freq_factor=1.0,
        high_freq_factor=4.0,
        original_max_position_embeddings=8192,
    )
    return DecoderConfig(
        architecture=family.architecture,
        vocab_size=draw(small),
        hidden_size=draw(small),
        intermediate_size=3 if family.expert_size == "intermediate_size" else draw(small),
        num_hidden_layers=draw(small),
        num_attention_heads=groups * draw(small),
        num_key_value_heads=groups,
        head_dim=2 * draw(small),
        max_position_embeddings=longest,
        rms_norm_eps=draw(st.floats(0, 1)),
        rope_theta=draw(st.floats(1, 1e12)),
        rope_scaling=draw(st.sampled_from([None, scaling])),
        attention_bias=draw(st.booleans()) and family.qkv_bias is None,
        mlp_bias=draw(st.booleans()) and family.mlp_bias,
        tie_word_embeddings=draw(st.booleans()),
        **mixture(draw, family),
        sliding_window=None if family.window == "never" else draw(st.none() | st.integers(1, longest - 1)),
    )


@given(configs())
def test_the_canonical_text_reads_back_exactly(config: DecoderConfig) -> None:
    text = config_text(config)
    assert read_config(text, "x.json") == config
    assert text_of(read_config(text, "x.json")) == text


@given(
    st.dictionaries(
        st.sampled_from([*TINY, "head_dim", "rope_theta", "rope_scaling", "rope_parameters"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(-10, 10) | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=2)
                | st.dictionaries(st.sampled_from(["rope_type", "factor", "type"]), inner, max_size=2)
            ),
            max_leaves=4,
        ),
    )
)
def test_any_object_gives_a_config_or_a_model_error(values: dict[str, Any]) -> None:
    with suppress(ModelError):
        read(TINY | values)
