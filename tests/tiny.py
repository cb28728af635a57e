"""Decoders small enough to run on ranks, and plans on them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from planner.compose import load_model
from planner.core.graph import ModelGraph
from planner.core.mesh import DeviceMesh
from planner.hardware import cluster_name
from planner.plan import Plan

SIZES: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 4,
    "max_position_embeddings": 64,
}
MODELS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama-biased": {"attention_bias": True, "mlp_bias": True},
    "qwen2": {"model_type": "qwen2"},
    "qwen3": {"model_type": "qwen3"},
    "qwen3-biased": {"model_type": "qwen3", "attention_bias": True},
    "mistral": {"model_type": "mistral", "sliding_window": None},
}
"""Architectures with their differences: biases of q, k, v (Qwen2) or everywhere (Llama), norms of heads (Qwen3)."""


def tiny_config(name: str = "llama", *, tied: bool = False, **sizes: object) -> dict[str, Any]:
    """Return the `config.json` of a tiny decoder."""
    return SIZES | MODELS[name] | {"tie_word_embeddings": tied} | sizes


@cache
def tiny_graph(name: str = "llama", *, tied: bool = False, **sizes: object) -> ModelGraph:
    """Return the graph of a tiny decoder."""
    return load_model(json.dumps(tiny_config(name, tied=tied, **sizes)))


def tiny_plan(
    mesh: dict[str, int] | str, *presets: tuple[str, str], graph: ModelGraph | None = None, microbatches: int = 1
) -> Plan:
    """Return a float64 plan with presets, each as (name, axis)."""
    parsed = DeviceMesh.parse(mesh) if isinstance(mesh, str) else DeviceMesh.of(mesh)
    plan = Plan.new(
        graph or tiny_graph(),
        cluster=cluster_name(parsed.device_count),
        mesh=parsed,
        global_batch=8,
        seq=8,
        microbatches=microbatches,
        precision="float64",
    )
    for name, axis in presets:
        plan = plan.preset(name, axis=axis)
    return plan
