"""What a decoder's config says, checked and complete: between a `config.json` and its graph."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.json_text import canonical
from .family import FAMILIES, Family


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeScaling:
    """Llama 3.1's stretching of the rotary wavelengths, named as in the config."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderConfig:
    """Every field that the graph depends on, named as in the config.

    Parameters
    ----------
    attention_bias, mlp_bias
        As the config says; False where the architecture doesn't know them.
    sliding_window
        How many of the last keys each query attends to, in every layer; None for all of them.
    experts, experts_per_token, expert_size
        How many experts a layer has, how many of them a token goes to, and how wide each is; 0 without experts.
    normalized_shares
        Whether the shares of a token's experts add up to one.
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    attention_bias: bool = False
    mlp_bias: bool = False
    tie_word_embeddings: bool = False
    sliding_window: int | None = None
    experts: int = 0
    experts_per_token: int = 0
    expert_size: int = 0
    normalized_shares: bool = True

    @property
    def family(self) -> Family:
        """The architecture's entry in `FAMILIES`."""
        return FAMILIES[self.architecture]

    @property
    def qkv_bias(self) -> bool:
        """Whether the projections of q, k and v have a bias."""
        fixed = self.family.qkv_bias
        return self.attention_bias if fixed is None else fixed

    @property
    def output_bias(self) -> bool:
        """Whether the projection after attention has a bias."""
        return self.attention_bias and self.family.qkv_bias is None

    @property
    def per_group(self) -> int:
        """Query heads that share one key/value head."""
        return self.num_attention_heads // self.num_key_value_heads


def config_text(config: DecoderConfig) -> str:
    """Return the config as canonical JSON, which `read_config` and Hugging Face read back."""
    family = config.family
    fields: dict[str, object] = {
        "architectures": [config.architecture],
        "model_type": family.model_type,
        "hidden_act": "silu",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "max_position_embeddings": config.max_position_embeddings,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "rope_scaling": None,
        "tie_word_embeddings": config.tie_word_embeddings,
    }
    if scaling := config.rope_scaling:
        fields["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": scaling.factor,
            "low_freq_factor": scaling.low_freq_factor,
            "high_freq_factor": scaling.high_freq_factor,
            "original_max_position_embeddings": scaling.original_max_position_embeddings,
        }
    if family.qkv_bias is None:
        fields["attention_bias"] = config.attention_bias
    if family.mlp_bias:
        fields["mlp_bias"] = config.mlp_bias
    if family.window != "never":
        # Written out, since Mistral takes a missing window for 4096.
        fields["sliding_window"] = config.sliding_window
    if family.window.startswith("flag") and config.sliding_window is not None:
        fields["use_sliding_window"] = True
        # Layers before this one attend to all keys.
        fields["max_window_layers"] = 0
    if family.experts:
        fields[family.experts] = config.experts
        fields[family.expert_size] = config.expert_size
        fields["num_experts_per_tok"] = config.experts_per_token
    if family.experts == "num_experts":
        fields["norm_topk_prob"] = config.normalized_shares
    return canonical(fields)
