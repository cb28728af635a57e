"""Parameters and modules equal those of Hugging Face transformers, name by name and shape by shape.

The models are made on the meta device, so even the largest takes no memory.
"""

import json
import math
from typing import Any

import pytest

from planner.core.graph import ModelGraph
from planner.importers import load_model
from planner.importers.zoo_models import zoo_text

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
DROPOUTS = ("embd_pdrop", "attn_pdrop", "resid_pdrop")
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
GPT2 = {"model_type": "gpt2", "vocab_size": 96, "n_positions": 64, "n_embd": 48, "n_layer": 3, "n_head": 6}
MIXTRAL = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2, "rms_norm_eps": 1e-5}
VARIANTS: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama"},
    "llama-biased": {"model_type": "llama", "attention_bias": True, "mlp_bias": True},
    "llama-tied": {"model_type": "llama", "tie_word_embeddings": True},
    "llama-wide-heads": {"model_type": "llama", "head_dim": 12, "attention_bias": True},
    "llama-one-group-each": {"model_type": "llama", "num_key_value_heads": 6},
    "llama-scaled": {"model_type": "llama", "rope_theta": 5e5, "rope_scaling": LLAMA3},
    "mistral": {"model_type": "mistral", "sliding_window": None},
    "mistral-window": {"model_type": "mistral", "sliding_window": 16},
    "mistral-wide-heads": {"model_type": "mistral", "sliding_window": None, "head_dim": 16},
    "qwen2": {"model_type": "qwen2"},
    "qwen2-tied": {"model_type": "qwen2", "tie_word_embeddings": True},
    "qwen2-window": {
        "model_type": "qwen2",
        "use_sliding_window": True,
        "sliding_window": 16,
        "max_window_layers": 0,
    },
    "qwen3": {"model_type": "qwen3", "head_dim": 16},
    "qwen3-biased": {"model_type": "qwen3", "head_dim": 4, "attention_bias": True},
    "mixtral": MIXTRAL,
    "mixtral-window": MIXTRAL | {"sliding_window": 16, "num_experts_per_tok": 1},
    "qwen3-experts": {
        "model_type": "qwen3_moe",
        "head_dim": 16,
        "num_experts": 6,
        "num_experts_per_tok": 3,
        "moe_intermediate_size": 20,
    },
    "qwen3-experts-window": {
        "model_type": "qwen3_moe",
        "head_dim": 8,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
        "moe_intermediate_size": 20,
        "use_sliding_window": True,
        "sliding_window": 16,
    },
    "gpt2": GPT2,
    "gpt2-untied": GPT2 | {"tie_word_embeddings": False, "activation_function": "gelu"},
    "gpt2-dropout": GPT2 | {"resid_pdrop": 0.25, "attn_pdrop": 0.5, "activation_function": "gelu_pytorch_tanh"},
    "qwen3-tied": {"model_type": "qwen3", "head_dim": 8, "tie_word_embeddings": True},
}


def reference(values: dict[str, Any]) -> Any:
    config = transformers.AutoConfig.for_model(**values)
    with torch.device("meta"):
        return transformers.AutoModelForCausalLM.from_config(config)


def joined(name: str, shape: tuple[Any, ...]) -> tuple[object, ...]:
    """Return the shape that a parameter has there: a fused weight has the dim of its parts and the next one in one."""
    if "c_attn" in name:
        return (*shape[:-2], shape[-2] * shape[-1])
    return (shape[0], shape[1] * shape[2], shape[3]) if "gate_up_proj" in name else shape


def parameters(graph: ModelGraph) -> dict[str, tuple[object, ...]]:
    """Return name → shape, every layer written out."""
    found = {p.name: p.meta.shape for p in graph.root.parameters}
    for repeat in graph.root.repeats:
        for index in range(repeat.count):
            layer = f"{repeat.name}.{index}."
            for p in repeat.block.parameters:
                name = p.name.replace(f"{repeat.name}.*.", layer)
                found[name] = joined(name, p.meta.shape)
    return found


def sized(variant: str) -> dict[str, Any]:
    values = VARIANTS[variant]
    return values if values["model_type"] == "gpt2" else SIZES | values


@pytest.mark.parametrize("variant", VARIANTS)
def test_small_models(variant: str) -> None:
    values = sized(variant)
    model = reference(values)
    graph = load_model(json.dumps(values))
    assert parameters(graph) == {n: tuple(p.shape) for n, p in model.named_parameters()}
    modules = {n: type(m).__name__ for n, m in model.named_modules()}
    first_layer = {m.path.replace(".*", ".0"): m.class_name for m in graph.modules}
    assert first_layer.items() <= modules.items()
    later = (".layers.1", ".layers.2", ".h.1", ".h.2")
    assert set(modules) - set(first_layer) == {n for n in modules if any(layer in n for layer in later)}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_config_that_transformers_saves(variant: str) -> None:
    """It has other keys than older files, e.g. `rope_parameters`, and it gives the same graph."""
    values = sized(variant)
    saved = json.loads(transformers.AutoConfig.for_model(**values).to_json_string(use_diff=False))
    assert load_model(json.dumps(saved)) == load_model(json.dumps(values))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_stored_content_means_the_same_to_transformers(variant: str) -> None:
    values = sized(variant)
    content = json.loads(load_model(json.dumps(values)).source.content)
    model, again = reference(values), reference(content)
    shapes = [{n: tuple(p.shape) for n, p in m.named_parameters()} for m in (model, again)]
    assert shapes[0] == shapes[1]
    experts = ("num_experts", "num_experts_per_tok", "norm_topk_prob")
    for key in (
        "rope_parameters",
        "rms_norm_eps",
        *experts,
        *GPT2,
        *DROPOUTS,
        "activation_function",
        "layer_norm_epsilon",
    ):
        assert getattr(again.config, key, None) == getattr(model.config, key, None)
    windows = [(c.sliding_window, getattr(c, "layer_types", None)) for c in (model.config, again.config)
               if hasattr(c, "sliding_window")]  # fmt: skip
    assert len({str(window) for window in windows}) <= 1


@pytest.mark.parametrize(
    "name",
    [
        "llama-3-8b",
        "llama-3.1-405b",
        "gpt2-xl",
        "mixtral-8x7b",
        "qwen3-235b-a22b",
        "qwen3-30b-a3b",
        "mistral-7b-v0.1",
        "qwen2.5-7b",
        "qwen3-8b",
    ],
)
def test_large_models(name: str) -> None:
    values = json.loads(zoo_text(name))
    model = reference({k: v for k, v in values.items() if k != "architectures"})
    graph = load_model(name)
    assert parameters(graph) == {n: tuple(p.shape) for n, p in model.named_parameters()}
    assert graph.parameter_count == sum(math.prod(p.shape) for p in model.parameters())
