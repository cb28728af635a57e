"""The exported unsharded model computes what Hugging Face transformers computes from the same weights.

Parameter names are equal, so weights move by name; a fused one has a dim more here, with the same elements.
Our labels are shifted already; theirs are shifted inside, so they get the labels of the token before. Transformers
computes norms and the loss in fp32 whatever the model's type: with its norms in float64, and the loss taken from its
logits, both agree far below the 1e-6 of fp32.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.compose import export, load_model
from tests.tiny import GPT2, tiny_config, tiny_plan

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": tiny_config("llama"),
    "llama-tied": tiny_config("llama", tied=True),
    "llama-biased": tiny_config("llama-biased"),
    "llama-scaled": tiny_config("llama", rope_theta=5e5, rope_scaling=LLAMA3),
    "llama-one-group": tiny_config("llama", num_key_value_heads=1),
    "llama-wide-heads": tiny_config("llama", head_dim=8),
    "mistral": tiny_config("mistral"),
    "mistral-window": tiny_config("mistral-window", sliding_window=5),
    "qwen2": tiny_config("qwen2"),
    "qwen2-window": tiny_config("qwen2", use_sliding_window=True, sliding_window=5, max_window_layers=0),
    "qwen2-tied": tiny_config("qwen2", tied=True),
    "qwen3": tiny_config("qwen3", head_dim=8),
    "qwen3-biased-tied": tiny_config("qwen3-biased", tied=True),
    "mixtral": tiny_config("mixtral"),
    "mixtral-window": tiny_config("mixtral", sliding_window=5, num_experts_per_tok=3),
    "qwen3-experts": tiny_config("qwen3-experts"),
    "qwen3-experts-shared-tied": tiny_config("qwen3-experts", tied=True, norm_topk_prob=True, num_experts_per_tok=3),
    "gpt2": GPT2,
    "gpt2-untied": GPT2 | {"tie_word_embeddings": False, "activation_function": "gelu", "n_inner": None},
}
SEQUENCES, LENGTH, VOCAB = 4, 24, 32


def ours(config: dict[str, Any], folder: Path) -> Any:
    """Import the unsharded bundle of a config and return its model with varied weights, in float64."""
    plan = tiny_plan("whole:1", graph=load_model(json.dumps(config)))
    export(replace(plan, decisions=replace(plan.decisions, global_batch=SEQUENCES, seq=LENGTH)), folder)
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        import train  # type: ignore[import-not-found]
        from parallel.mesh import Mesh  # type: ignore[import-not-found]

        model = train.MODEL(Mesh(train.SETTINGS.mesh)).double()
    finally:
        sys.path.remove(str(folder))
        for name in set(sys.modules) - before:
            del sys.modules[name]
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
            p.copy_(noise * 0.2 + (1.0 if "norm" in name or ".ln_" in name else 0.0))
    return model


def batch() -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(2)
    ids = torch.randint(VOCAB, (SEQUENCES, LENGTH + 1), generator=generator)
    labels = ids[:, 1:].clone()
    labels[torch.rand(labels.shape, generator=generator) < 0.3] = -100
    # What transformers shifts away must count for neither: it never learns the token after the last one.
    labels[:, -1] = -100
    return ids[:, :-1], labels


def error(mine: Any, theirs: Any) -> float:
    return ((mine - theirs).norm() / theirs.norm()).item()


def in_float64(forward: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the forward of a router without its casts to fp32."""

    def inside(x: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch, "float", torch.float64)
            patch.setattr(torch.Tensor, "float", torch.Tensor.double)
            return forward(x)

    return inside


def theirs(config: dict[str, Any], state: dict[str, Any]) -> Any:
    """Return the reference with our weights."""
    values = {k: v for k, v in config.items() if k != "model_type"}
    read = transformers.AutoConfig.for_model(config["model_type"], **values)
    read._attn_implementation = read._experts_implementation = "eager"
    reference = transformers.AutoModelForCausalLM.from_config(read).double()
    shapes = {k: v.shape for k, v in reference.state_dict().items()}
    found = reference.load_state_dict(
        {k: v.detach().clone().reshape(shapes[k]) for k, v in state.items()}, strict=False
    )
    assert set(found.missing_keys) <= ({"lm_head.weight"} if read.tie_word_embeddings else set())
    assert found.unexpected_keys == []
    return reference


@pytest.mark.parametrize("name", CONFIGS)
def test_loss_and_gradients(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ours(CONFIGS[name], tmp_path)
    state = dict(model.named_parameters())
    reference = theirs(CONFIGS[name], state)
    tokens, labels = batch()
    loss = model(tokens, labels)
    loss.backward()

    shifted = torch.cat([torch.full((SEQUENCES, 1), -100), labels[:, :-1]], dim=1)
    with torch.no_grad():
        its_own = reference(input_ids=tokens, labels=shifted, use_cache=False).loss
    assert error(loss.detach(), its_own) <= 1e-6
    assert its_own.item() > 1.0

    monkeypatch.setattr(torch, "float32", torch.float64)
    for module in reference.modules():
        if type(module).__name__.endswith("TopKRouter"):
            monkeypatch.setattr(module, "forward", in_float64(module.forward))
    logits = reference(input_ids=tokens, use_cache=False).logits
    precise = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    precise.backward()
    assert error(loss.detach(), precise.detach()) <= 1e-12
    gradients = {n: p.grad for n, p in reference.named_parameters()}
    assert gradients.keys() == state.keys()
    errors = {n: error(p.grad, gradients[n].reshape(p.shape)) for n, p in state.items()}
    assert {n: e for n, e in errors.items() if not e <= 1e-10} == {}
