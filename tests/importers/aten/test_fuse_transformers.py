"""Whole models of transformers: traced, fused and run unsharded, they have the models' own loss and gradients."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from planner.importers.aten.constants import fold_constants  # noqa: E402
from planner.importers.aten.fuse import as_pairs, fuse  # noqa: E402
from planner.importers.aten.lower import lower  # noqa: E402
from planner.importers.aten.strip import strip  # noqa: E402
from tests.importers.aten.of_transformers import assert_same_as_model, tokens_and_labels, traced_config  # noqa: E402
from tests.tiny import GPT2, tiny_config  # noqa: E402

VOCAB = 32
BASE: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 8,
    "num_key_value_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip
SMALL_GPT: dict[str, Any] = GPT2 | {"n_head": 4}
LATENT: dict[str, Any] = {
    "q_lora_rank": 16, "kv_lora_rank": 12, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 5,
    "n_routed_experts": 8, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "first_k_dense_replace": 1, "num_key_value_heads": 8,
}  # fmt: skip
SHARED: dict[str, Any] = {
    "n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_shared_experts": 1,
    "first_k_dense_replace": 1, "head_dim": 8,
}  # fmt: skip
NARROW: dict[str, Any] = {"head_dim": 4, "query_pre_attn_scalar": 4, "sliding_window": 5, "pad_token_id": 0}
NO_DROPS: dict[str, Any] = {"residual_dropout": 0.0, "embedding_dropout": 0.0, "attention_dropout": 0.0}
Wanted = dict[str, int]
QUICK: dict[str, tuple[dict[str, Any], Wanted]] = {
    "deepseek_v3": (LATENT, {"rms_norm": 9, "rotary": 4, "attention": 2, "swiglu": 3, "place": 1, "collect": 1}),
    "gpt_oss": (
        {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 4, "sliding_window": 5},
        {"rms_norm": 5, "rotary": 4, "sink_attention": 2, "place": 2, "collect": 2},
    ),
    "gptj": (
        SMALL_GPT | {"model_type": "gptj", "rotary_dim": 4}, {"rotary": 4, "attention": 2, "split_heads": 6, "gelu": 2},
    ),
}  # fmt: skip
SLOW: dict[str, tuple[dict[str, Any], Wanted]] = {
    "llama": (tiny_config("llama"), {"rms_norm": 5, "rotary": 4, "attention": 2, "swiglu": 2}),
    "mixtral": (tiny_config("mixtral"), {"route": 2, "dispatch": 2, "expert_linear": 2, "collect": 2}),
    "gpt2": (GPT2, {"attention": 2, "gelu": 2, "layer_norm": 5}),
    "gemma": ({"head_dim": 4}, {"rms_norm": 5, "geglu": 2}),
    "gemma2": (NARROW, {"rms_norm": 9, "geglu": 2, "attention": 1, "window_attention": 1}),
    "gemma3_text": (NARROW, {"rms_norm": 13, "geglu": 2, "window_attention": 2}),
    "olmo2": ({}, {"rms_norm": 9, "rotary": 4, "attention": 2}),
    "phi3": ({"pad_token_id": 0, "original_max_position_embeddings": 64}, {"rms_norm": 5, "swiglu": 2, "rotary": 4}),
    "phi": (
        {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "num_key_value_heads": 8, "partial_rotary_factor": 0.5},
        {"rotary": 4, "attention": 2, "gelu": 2},
    ),
    "gpt_neox": ({"rotary_pct": 0.5, "hidden_dropout": 0.0}, {"rotary": 4, "attention": 2}),
    "stablelm": ({"partial_rotary_factor": 0.5}, {"rotary": 4, "attention": 2, "swiglu": 2}),
    "starcoder2": (NO_DROPS, {"rotary": 4, "attention": 2}),
    "cohere": ({}, {"rotary": 4, "attention": 2, "swiglu": 2}),
    "codegen": (SMALL_GPT | {"model_type": "codegen", "rotary_dim": 4}, {"rotary": 4, "attention": 2}),
    "glm4_moe": (SHARED, {"place": 1, "collect": 1, "swiglu": 3}),
    "dots1": (SHARED, {"place": 1, "collect": 1, "swiglu": 3}),
    "granitemoe": ({"num_local_experts": 4, "num_experts_per_tok": 2}, {"place": 2, "collect": 2}),
    "olmoe": ({"num_experts": 4, "num_experts_per_tok": 2}, {"route": 2, "rms_norm": 9}),
    "qwen2_moe": (
        {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
         "shared_expert_intermediate_size": 16},
        {"route": 2, "swiglu": 4},
    ),
    "nemotron": ({}, {"rotary": 4, "attention": 2}),
    "lfm2": ({}, {"rms_norm": 9, "swiglu": 2}),
}  # fmt: skip


def check(kind: str, values: dict[str, Any], wanted: Wanted) -> None:
    """Check what a model's program is fused into, and that it computes what the model does."""
    content = json.dumps(values if "model_type" in values else BASE | values | {"model_type": kind})
    block = lower(fuse(fold_constants(as_pairs(strip(traced_config(content)))))).block
    found = Counter(node.op for node in block.nodes)
    assert {op: found[op] for op in (*wanted, "unknown")} == wanted | {"unknown": 0}
    assert_same_as_model(content, block, tokens_and_labels(VOCAB))


@pytest.mark.parametrize("kind", QUICK)
def test_loss_and_gradients(kind: str) -> None:
    check(kind, *QUICK[kind])


@pytest.mark.slow
@pytest.mark.parametrize("kind", SLOW)
def test_loss_and_gradients_of_more_models(kind: str) -> None:
    check(kind, *SLOW[kind])
