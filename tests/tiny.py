"""Decoders small enough to run on ranks, and plans on them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from planner.compose import load_model
from planner.core.graph import Attribute, Block, ModelGraph, Node, Repeat, Value
from planner.core.mesh import DeviceMesh
from planner.hardware import cluster_name
from planner.ops import OPS
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
    "mixtral": {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "rms_norm_eps": 1e-5},
    "qwen3-experts": {
        "model_type": "qwen3_moe",
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
    },
    "mistral-window": {"model_type": "mistral", "sliding_window": 3},
}
"""Architectures: biases of q, k, v (Qwen2) or everywhere (Llama), norms of heads (Qwen3), windows of keys (Mistral)."""

GPT2: dict[str, Any] = {
    "model_type": "gpt2", "vocab_size": 32, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 8, "n_inner": 48,
    "embd_pdrop": 0.0, "attn_pdrop": 0.0, "resid_pdrop": 0.0,
}  # fmt: skip


def tiny_config(name: str = "llama", *, tied: bool = False, **sizes: object) -> dict[str, Any]:
    """Return the `config.json` of a tiny decoder."""
    return SIZES | MODELS[name] | {"tie_word_embeddings": tied} | sizes


@cache
def tiny_gpt2(**changes: object) -> ModelGraph:
    """Return the graph of a tiny GPT-2."""
    return load_model(json.dumps(GPT2 | changes))


@cache
def tiny_graph(name: str = "llama", *, tied: bool = False, **sizes: object) -> ModelGraph:
    """Return the graph of a tiny decoder."""
    return load_model(json.dumps(tiny_config(name, tied=tied, **sizes)))


def with_dropout(graph: ModelGraph, p: float = 0.25, seed: int = 3) -> ModelGraph:
    """Return the graph with dropout after the embedding, and in every layer after attention and feed-forward."""
    places = {
        "model.embed_tokens": "model/dropout",
        "model.layers.*.self_attn.o_proj": "model.layers.*.self_attn/dropout",
        "model.layers.*.mlp.down_proj": "model.layers.*.mlp/dropout",
    }
    return inserted(graph, {after: (name, "dropout", {"p": p, "seed": seed}) for after, name in places.items()})


def inserted(graph: ModelGraph, places: Mapping[str, tuple[str, str, Mapping[str, Attribute]]]) -> ModelGraph:
    """Return the graph with operators of one operand put in: node before → name, operator and attributes."""

    def dropped(block: Block) -> Block:
        body: list[Node | Repeat] = []
        renamed: dict[str, str] = {}
        for item in block.body:
            read = replace(item, operands=tuple(renamed.get(name, name) for name in item.operands))
            if isinstance(read, Repeat):
                read = replace(read, block=dropped(read.block))
            body.append(read)
            if item.name in places:
                (name, op, attributes), (value,) = places[item.name], item.results
                body.append(
                    Node(
                        name=name, op=op, operands=(value.name,), results=(Value(name=name, meta=value.meta),),
                        attributes=tuple(sorted(attributes.items())), module=name.partition("/")[0],
                        rule=OPS[op].rule((value.meta,), (value.meta,), attributes),
                    )
                )  # fmt: skip
                renamed[value.name] = name
        return replace(block, body=tuple(body), outputs=tuple(renamed.get(name, name) for name in block.outputs))

    return replace(graph, root=dropped(graph.root))


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
