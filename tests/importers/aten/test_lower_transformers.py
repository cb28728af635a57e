"""Models of transformers, lowered call by call without any fusion, have their losses and gradients."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from planner.importers.aten.lower import lower
from planner.importers.aten.strip import strip

from .of_transformers import assert_same_as_model, tokens_and_labels, traced_config

SIZES: dict[str, Any] = {
    "vocab_size": 32, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 4, "max_position_embeddings": 64, "head_dim": 4,
}  # fmt: skip
PLAIN = (
    "llama",
    "qwen3",
    "olmo2",
    "olmo3",
    "cohere2",
    "granite",
    "exaone4",
    "arcee",
    "apertus",
    "persimmon",
    "nemotron",
)
CONFIGS: dict[str, dict[str, Any]] = {
    "gemma2": SIZES | {"query_pre_attn_scalar": 4, "sliding_window": 5, "pad_token_id": 0},
    **dict.fromkeys(PLAIN, SIZES),
    "gpt_neox": SIZES | {"rotary_pct": 0.5, "hidden_dropout": 0.0},
    "stablelm": SIZES | {"partial_rotary_factor": 0.5},
    "gpt2": {"vocab_size": 32, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "embd_pdrop": 0.0,
             "attn_pdrop": 0.0, "resid_pdrop": 0.0},
    "opt": {"vocab_size": 32, "hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 64, "dropout": 0.0, "word_embed_proj_dim": 32},
}  # fmt: skip


@pytest.mark.parametrize("kind", [pytest.param(k, marks=() if k == "gemma2" else pytest.mark.slow) for k in CONFIGS])
def test_loss_and_gradients(kind: str) -> None:
    content = json.dumps({"model_type": kind} | CONFIGS[kind])
    block = lower(strip(traced_config(content))).block
    assert [node.name for node in block.nodes if node.op == "unknown"] == []
    assert_same_as_model(content, block, tokens_and_labels(32))
