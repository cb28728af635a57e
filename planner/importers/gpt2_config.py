"""What a GPT-2 config says, checked and complete: between a `config.json` and its graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..core.json_text import canonical
from ..errors import ModelError
from .config_fields import Fields, listed, shown

ARCHITECTURE, MODEL_TYPE = "GPT2LMHeadModel", "gpt2"
_REQUIRED = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_head")
_APPROXIMATIONS = {"gelu_new": "tanh", "gelu_pytorch_tanh": "tanh", "gelu": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpt2Config:
    """Every field that the graph depends on, named as in the config; `n_inner` is written out."""

    vocab_size: int
    n_positions: int
    n_embd: int
    n_layer: int
    n_head: int
    n_inner: int
    activation_function: str = "gelu_new"
    layer_norm_epsilon: float = 1e-5
    embd_pdrop: float = 0.0
    attn_pdrop: float = 0.0
    resid_pdrop: float = 0.0
    tie_word_embeddings: bool = True

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.n_embd // self.n_head

    @property
    def approximation(self) -> str:
        """How the activation computes gelu, in torch's words."""
        return _APPROXIMATIONS[self.activation_function]


def gpt2_text(config: Gpt2Config) -> str:
    """Return the config as canonical JSON, which `read_gpt2` and Hugging Face read back."""
    fields: dict[str, object] = {name: getattr(config, name) for name in Gpt2Config.__dataclass_fields__}
    return canonical({"architectures": [ARCHITECTURE], "model_type": MODEL_TYPE} | fields)


def read_gpt2(values: Mapping[str, object], name: str) -> Gpt2Config:
    """Return the checked config.

    Parameters
    ----------
    values
        The object of a `config.json`.
    name
        What to call it in messages.

    Raises
    ------
    ModelError
        `model.config-missing`, `model.config-value`, `model.heads-not-divisible`, or `model.…-unsupported` for what
        can't be planned yet.
    """
    missing = [key for key in _REQUIRED if values.get(key) is None]
    if missing:
        raise ModelError(
            "model.config-missing",
            f"{name} lacks {listed(missing)}, which {ARCHITECTURE} needs.",
            "Give what the model's config.json says.",
        )
    _refuse_unsupported(values, name)
    fields = Fields(values)
    width = fields.integer("n_embd")
    # A missing share means 0.1 to transformers.
    drops = {key: fields.number(key, 0.1, 0.0, 0.999) for key in ("embd_pdrop", "attn_pdrop", "resid_pdrop")}
    config = Gpt2Config(
        vocab_size=fields.integer("vocab_size"),
        n_positions=fields.integer("n_positions"),
        n_embd=width,
        n_layer=fields.integer("n_layer"),
        n_head=fields.integer("n_head"),
        n_inner=fields.integer("n_inner", 4 * width),
        activation_function=str(values.get("activation_function") or "gelu_new"),
        layer_norm_epsilon=fields.number("layer_norm_epsilon", 1e-5, 0.0, 1.0),
        tie_word_embeddings=values.get("tie_word_embeddings") is None or fields.flag("tie_word_embeddings"),
        **drops,
    )
    if fields.problems:
        raise ModelError(
            "model.config-value", f"In {name}, {'; '.join(fields.problems)}.", "Write values in these ranges."
        )
    if width % config.n_head:
        raise ModelError(
            "model.heads-not-divisible",
            f"In {name}, n_embd {width} is no multiple of n_head {config.n_head}.",
            "Change one of the numbers.",
        )
    return config


def _refuse_unsupported(values: Mapping[str, object], name: str) -> None:
    """Refuse keys that would change the computation in a way that a plan does not hold."""
    for key, code, good, only in (
        ("activation_function", "activation", tuple(_APPROXIMATIONS), "gelu_new and gelu"),
        ("scale_attn_weights", "attention-scale", (True,), "scores that are divided by the root of the head dim"),
        ("scale_attn_by_inverse_layer_idx", "attention-scale", (False,), "the same scale in every layer"),
        ("add_cross_attention", "cross-attention", (False,), "attention to the sequence itself"),
        ("quantization_config", "quantization", (), "a model that is not quantized"),
    ):
        value = values.get(key)
        if value is not None and value not in good:
            raise ModelError(
                f"model.{code}-unsupported",
                f"{name} sets {key} to {shown(value)}; only {only} can be planned yet.",
                f'Set "{key}" to {shown(good[0] if good else None)} if that is close enough.',
            )
