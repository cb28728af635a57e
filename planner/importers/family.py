"""The decoder architectures that a config may name, and what sets them apart.

All are one decoder: embedding, layers of RMSNorm, grouped attention with rotary positions and a
SwiGLU or several, to which a router sends tokens, a last RMSNorm and a head. They differ in biases,
norms of queries and keys, and in what a missing key means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One architecture of Hugging Face transformers.

    Parameters
    ----------
    architecture, model_type
        What `architectures` and `model_type` of its config say.
    prefix
        What its class names start with, e.g. `Llama` in `LlamaDecoderLayer`.
    required
        Keys that it needs beyond those that all need.
    qkv_bias
        Whether q, k and v have a bias; None if `attention_bias` says so, for them and for o.
    mlp_bias
        Whether it knows the key `mlp_bias`.
    qk_norm
        Whether each head of q and k goes through an RMSNorm.
    window
        Whether a sliding window may limit its attention: `always`, `never`, or `flag` if
        `use_sliding_window` says so, for the layers from `max_window_layers`, or `flag-all` if it does so for all.
    missing_window
        The window where a config does not give it.
    max_positions
        `max_position_embeddings` where a config does not give it.
    missing_theta
        `rope_theta` where a config does not give it.
    experts, expert_size
        Keys of how many experts the feed-forward of each layer has, and how wide each is; empty without experts.
    """

    architecture: str
    model_type: str
    prefix: str
    required: tuple[str, ...] = ()
    qkv_bias: bool | None
    mlp_bias: bool = False
    qk_norm: bool = False
    window: str
    missing_window: int | None = 4096
    max_positions: int
    missing_theta: float = 10_000.0
    experts: str = ""
    expert_size: str = ""


_ALL = (
    Family(
        architecture="LlamaForCausalLM", model_type="llama", prefix="Llama",
        qkv_bias=None, mlp_bias=True, window="never", max_positions=2048,
    ),
    Family(
        architecture="MistralForCausalLM", model_type="mistral", prefix="Mistral",
        required=("num_key_value_heads",), qkv_bias=False, window="always", max_positions=131_072,
    ),
    Family(
        architecture="Qwen2ForCausalLM", model_type="qwen2", prefix="Qwen2",
        required=("num_key_value_heads",), qkv_bias=True, window="flag", max_positions=32_768,
    ),
    Family(
        architecture="Qwen3ForCausalLM", model_type="qwen3", prefix="Qwen3",
        required=("num_key_value_heads", "head_dim"), qkv_bias=None, qk_norm=True,
        window="flag", max_positions=32_768,
    ),
    Family(
        architecture="MixtralForCausalLM", model_type="mixtral", prefix="Mixtral",
        required=("num_key_value_heads", "num_local_experts", "num_experts_per_tok", "rms_norm_eps"),
        qkv_bias=False, window="always", missing_window=None, max_positions=131_072, missing_theta=1e6,
        experts="num_local_experts", expert_size="intermediate_size",
    ),
    Family(
        architecture="Qwen3MoeForCausalLM", model_type="qwen3_moe", prefix="Qwen3Moe",
        required=(
            "num_key_value_heads", "head_dim", "num_experts", "num_experts_per_tok", "moe_intermediate_size",
        ),
        qkv_bias=None, qk_norm=True, window="flag-all", max_positions=32_768,
        experts="num_experts", expert_size="moe_intermediate_size",
    ),
)  # fmt: skip

FAMILIES: Mapping[str, Family] = MappingProxyType({family.architecture: family for family in _ALL})
