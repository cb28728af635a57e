"""What a model of transformers is trained for: its inputs, and the loss of its logits. The table `HEADS`.

The loss is ours, so that it is the same for all models of a kind, and so that labels are already shifted:
`labels[b, s]` is what position `s` has to give, or -100 where nothing is to be learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch.nn import functional

Spec = tuple[tuple[int | str, ...], torch.dtype]
"""Shape, with symbols for sizes that stay open, and element type."""
Run = Callable[..., tuple[torch.Tensor, torch.Tensor]]

TOKENS: Spec = (("B", "S"), torch.int64)
CLASSES: Spec = (("B",), torch.int64)
SECONDS = 30
"""Length of a sample of audio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A kind of model.

    Parameters
    ----------
    mapping
        Table of transformers that has a class for each model type, e.g. `MODEL_FOR_CAUSAL_LM_MAPPING_NAMES`.
    inputs
        The model's config and class → what it takes, by name.
    run
        Model and inputs → loss and logits.
    shifted
        Whether the labels are the next tokens.
    """

    name: str
    mapping: str
    inputs: Callable[[Any, Any], Mapping[str, Spec]]
    run: Run
    shifted: bool = False


def token_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the cross-entropy of logits `[…, classes]` and labels `[…]`, without labels of -100."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    return functional.cross_entropy(wide.reshape(-1, wide.shape[-1]), labels.reshape(-1))


def _answer(model: torch.nn.Module, **inputs: torch.Tensor) -> Any:
    # A model that keeps no cache has no such argument.
    return model(**inputs, return_dict=True)


def _language(model: torch.nn.Module, tokens: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    logits = _answer(model, input_ids=tokens).logits
    return token_loss(logits, labels), logits


def _translate(
    model: torch.nn.Module, tokens: torch.Tensor, decoder_tokens: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    logits = _answer(model, input_ids=tokens, decoder_input_ids=decoder_tokens).logits
    return token_loss(logits, labels), logits


def _transcribe(
    model: Any, frames: torch.Tensor, decoder_tokens: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    logits = _answer(model, **{model.main_input_name: frames}, decoder_input_ids=decoder_tokens).logits
    return token_loss(logits, labels), logits


def _classify(model: Any, samples: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    logits = _answer(model, **{model.main_input_name: samples}).logits
    return token_loss(logits, labels), logits


def _text(config: Any, kind: Any) -> Mapping[str, Spec]:
    return {"tokens": TOKENS, "labels": TOKENS}


def _text_pair(config: Any, kind: Any) -> Mapping[str, Spec]:
    return {"tokens": TOKENS, "decoder_tokens": TOKENS, "labels": TOKENS}


def _text_classes(config: Any, kind: Any) -> Mapping[str, Spec]:
    return {"tokens": TOKENS, "labels": CLASSES}


def _images(config: Any, kind: Any) -> Mapping[str, Spec]:
    size = getattr(config, "image_size", None) or getattr(getattr(config, "vision_config", None), "image_size", 224)
    if isinstance(size, Mapping):
        size = (size["height"], size["width"])
    height, width = size if isinstance(size, tuple | list) else (size, size)
    shape = ("B", getattr(config, "num_channels", 3), height, width)
    return {"images": (shape, torch.bfloat16), "labels": CLASSES}


def _audio(config: Any, kind: Any) -> Spec:
    """Return samples of audio as the model takes them: waves, or frames of mel bins with the bins last or first."""
    if kind.main_input_name == "input_values":
        return (("B", 16_000 * SECONDS), torch.bfloat16)
    if hasattr(config, "max_source_positions") and hasattr(config, "num_mel_bins"):
        # Whisper's encoder halves the frames once.
        return (("B", config.num_mel_bins, 2 * config.max_source_positions), torch.bfloat16)
    bins = next((getattr(config, key) for key in ("feature_projection_input_dim", "input_feat_per_channel",
                 "num_mel_bins") if getattr(config, key, None)), 80)  # fmt: skip
    return (("B", 100 * SECONDS, bins), torch.bfloat16)


def _speech(config: Any, kind: Any) -> Mapping[str, Spec]:
    return {"frames": _audio(config, kind), "decoder_tokens": TOKENS, "labels": TOKENS}


def _speech_classes(config: Any, kind: Any) -> Mapping[str, Spec]:
    return {"frames": _audio(config, kind), "labels": CLASSES}


HEADS: Mapping[str, Head] = MappingProxyType(
    {
        name: Head(
            name=name, mapping=f"MODEL_FOR_{mapping}_MAPPING_NAMES", inputs=inputs, run=run,
            shifted=mapping == "CAUSAL_LM",
        )
        for name, mapping, inputs, run in (
            ("speech to text", "SPEECH_SEQ_2_SEQ", _speech, _transcribe),
            ("text to text", "SEQ_TO_SEQ_CAUSAL_LM", _text_pair, _translate),
            ("masked language model", "MASKED_LM", _text, _language),
            ("causal language model", "CAUSAL_LM", _text, _language),
            ("image classes", "IMAGE_CLASSIFICATION", _images, _classify),
            ("text classes", "SEQUENCE_CLASSIFICATION", _text_classes, _classify),
            ("token classes", "TOKEN_CLASSIFICATION", _text, _language),
            ("audio classes", "AUDIO_CLASSIFICATION", _speech_classes, _classify),
        )
    }
)  # fmt: skip
"""In the order in which a config that names no architecture is tried: encoders know how to be decoders, too."""
