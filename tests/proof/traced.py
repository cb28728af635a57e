"""Models of other architectures than decoders, traced at a size at which they run on ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from planner.core.graph import Feed, ModelGraph, ModelSource
from planner.core.json_text import digest, parse
from planner.importers.aten.build import build
from planner.importers.feeds import feeds_of
from planner.importers.hf_config import BOUNDS
from planner.importers.modules import ARCHITECTURES, read_source
from planner.importers.transformers_config import canonical_config

WIDTHS: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 32,
}  # fmt: skip
NO_DROPOUT: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
CONFIGS: Mapping[str, dict[str, Any]] = {
    "bert": WIDTHS | NO_DROPOUT | {"model_type": "bert", "architectures": ["BertForMaskedLM"],
                                   "max_position_embeddings": 32},
    "t5": {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 32, "d_model": 32,
           "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "dropout_rate": 0.0},
    "vit": WIDTHS | NO_DROPOUT | {"model_type": "vit", "architectures": ["ViTForImageClassification"],
                                  "image_size": 8, "patch_size": 4, "num_labels": 6},
    "whisper": {"model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "vocab_size": 32,
                "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
                "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_mel_bins": 4,
                "max_source_positions": 8, "max_target_positions": 32, "dropout": 0.0, "pad_token_id": 0,
                "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
    "gpt_neox": WIDTHS | {"model_type": "gpt_neox", "max_position_embeddings": 32, "hidden_dropout": 0.0,
                          "attention_dropout": 0.0},
    "gemma2": WIDTHS | {"model_type": "gemma2", "num_key_value_heads": 2, "head_dim": 8, "sliding_window": 4,
                        "max_position_embeddings": 32},
    "deepseek_v3": WIDTHS | {"model_type": "deepseek_v3", "num_hidden_layers": 3, "first_k_dense_replace": 1,
                             "moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2,
                             "n_shared_experts": 1, "n_group": 2, "topk_group": 1, "q_lora_rank": 16,
                             "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8,
                             "num_key_value_heads": 4, "max_position_embeddings": 32},
    "gpt_oss": WIDTHS | {"model_type": "gpt_oss", "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 4,
                         "num_experts_per_tok": 2, "sliding_window": 4, "max_position_embeddings": 32,
                         "layer_types": ["sliding_attention", "full_attention"], "rope_scaling": None},
    "convnext": {"model_type": "convnext", "architectures": ["ConvNextForImageClassification"],
                 "hidden_sizes": [8, 16], "depths": [2, 2], "num_stages": 2, "image_size": 16, "num_labels": 6,
                 "drop_path_rate": 0.0, "patch_size": 4},
}  # fmt: skip
MODULES = tuple(ARCHITECTURES)
"""Own modules, at the sizes that they call tiny."""
NAMES = (*CONFIGS, *MODULES)


@cache
def traced_graph(name: str) -> ModelGraph:
    """Return the graph of a small model, traced here."""
    if name in MODULES:
        from planner.importers.modules.source import ModuleSource
        from planner.importers.modules.tracing import trace_module

        read = ModuleSource(architecture=ARCHITECTURES[name], arguments=ARCHITECTURES[name].tiny)
        source = read_source(read.text, name).named(name)
        return _fed(build(trace_module(read, name), source, name), read.feeds)
    from planner.importers.tracing.hf import trace_config

    content = canonical_config(CONFIGS[name], name)
    assert isinstance(parse(content, name, BOUNDS), dict)
    source = ModelSource(name=name, kind="hf_config", digest=digest(content), content=content)
    return _fed(build(trace_config(content, name), source, name))


def _fed(graph: ModelGraph, known: tuple[Feed, ...] = ()) -> ModelGraph:
    return graph if graph.feeds else replace(graph, feeds=feeds_of(graph.root, known))
