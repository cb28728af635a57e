"""Which layers of models of transformers are one block."""

from __future__ import annotations

import json
from typing import Any

import pytest

from planner.core.graph import ModelSource
from planner.core.json_text import digest
from planner.verify import verify_graph

pytest.importorskip("torch")
pytest.importorskip("transformers")

from planner.importers.aten.build import build
from planner.importers.tracing.hf import trace_config

WIDTHS: dict[str, Any] = {
    "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "vocab_size": 32, "num_key_value_heads": 2,
    "head_dim": 8, "max_position_embeddings": 32, "sliding_window": 4,
}  # fmt: skip
FAMILIES: dict[str, tuple[dict[str, Any], list[tuple[str, int]]]] = {
    "alternating windows": (
        WIDTHS | {"model_type": "gemma2", "num_hidden_layers": 6}, [("model.layers.0-5", 3)],
    ),
    "alternating windows and experts": (
        WIDTHS | {"model_type": "gpt_oss", "num_hidden_layers": 5, "num_local_experts": 4, "num_experts_per_tok": 2,
                  "layer_types": [*["sliding_attention", "full_attention"] * 2, "sliding_attention"],
                  "rope_scaling": None},
        [("model.layers.0-3", 2)],
    ),
    "dense layers before experts": (
        WIDTHS | {"model_type": "deepseek_v3", "num_hidden_layers": 5, "first_k_dense_replace": 2,
                  "moe_intermediate_size": 16, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
                  "n_group": 2, "topk_group": 1, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_nope_head_dim": 8,
                  "qk_rope_head_dim": 4, "v_head_dim": 8, "num_key_value_heads": 4, "head_dim": 4},
        [("model.layers.0-1", 2), ("model.layers.2-4", 3)],
    ),
    "bias of the first layers": (
        {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 32, "d_model": 32,
         "d_kv": 8, "d_ff": 48, "num_layers": 3, "num_decoder_layers": 4, "num_heads": 4, "dropout_rate": 0.0},
        [("encoder.block.1-2", 2), ("decoder.block.1-3", 3)],
    ),
    "stages": (
        {"model_type": "convnext", "architectures": ["ConvNextForImageClassification"], "hidden_sizes": [8, 16],
         "depths": [1, 3], "num_stages": 2, "image_size": 16, "num_labels": 6, "drop_path_rate": 0.0, "patch_size": 4},
        [("convnext.encoder.stages.1.layers", 3)],
    ),
}  # fmt: skip
QUICK = ("alternating windows",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in FAMILIES]
)
def test_repeats(name: str) -> None:
    values, expected = FAMILIES[name]
    text = json.dumps(values)
    source = ModelSource(name=name, kind="hf_config", digest=digest(text), content=text)
    graph = build(trace_config(text, name), source, name)
    assert verify_graph(graph) == ()
    assert [(repeat.name, repeat.count) for repeat in graph.root.repeats] == expected
