"""Covers: tracing.depth: a deep model of which some layers were traced equals the one that was traced whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from planner.core.graph import ModelGraph, ModelSource  # noqa: E402
from planner.importers.aten.build import build  # noqa: E402
from planner.importers.aten.program import Program  # noqa: E402
from planner.importers.tracing.depth import EVEN, KEPT, restored, shortened  # noqa: E402
from planner.importers.tracing.hf import build_model, trace_config  # noqa: E402
from planner.importers.transformers_config import canonical_config  # noqa: E402

LAYERS = 9
SIZES: dict[str, Any] = {
    "vocab_size": 96, "hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 48, "head_dim": 8, "pad_token_id": 0,
    "max_position_embeddings": 64,
}  # fmt: skip
WITHOUT_GROUPS = {key: value for key, value in SIZES.items() if key not in {"num_key_value_heads", "head_dim"}}
CONFIGS = {kind: {"model_type": kind, **SIZES} for kind in EVEN}
CONFIGS["gpt_neox"] = {"model_type": "gpt_neox", **WITHOUT_GROUPS}
CONFIGS["opt"] = {"model_type": "opt", **WITHOUT_GROUPS, "ffn_dim": 48, "word_embed_proj_dim": 32}


def traced(kind: str, *, quick: bool, **changes: Any) -> Program:
    return trace_config(canonical_config(CONFIGS[kind] | changes, kind), kind, quick=quick)


def graph_of(program: Program) -> ModelGraph:
    return build(program, ModelSource(name="x", kind="hf_config", digest="", content=""), "x")


def compare(kind: str) -> None:
    whole, copied = (traced(kind, quick=quick) for quick in (False, True))
    # Calls and parameters have other names; what they are, and in which order, is the same.
    assert [replace(call, name="", arguments=(), keywords=()) for call in whole.calls] == [
        replace(call, name="", arguments=(), keywords=()) for call in copied.calls
    ]
    assert [(one.path, one.meta) for one in whole.weights] == [(one.path, one.meta) for one in copied.weights]
    assert [(one.path, one.meta, one.values) for one in whole.buffers] == [
        (one.path, one.meta, one.values) for one in copied.buffers
    ]
    assert (whole.modules, whole.tied, whole.fixed) == (copied.modules, copied.tied, copied.fixed)
    assert graph_of(whole) == graph_of(copied)
    assert any("__layer5" in call.name for call in copied.calls)


def test_a_deep_model_is_the_one_that_is_traced_whole() -> None:
    compare("llama")


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(EVEN - {"llama"}))
def test_of_every_type(kind: str) -> None:
    compare(kind)


@pytest.fixture
def model() -> Any:
    made, _, _ = build_model(CONFIGS["llama"], "x", torch.bfloat16)
    return made


def test_what_is_not_even_is_traced_whole(model: Any) -> None:
    layers = model.model.layers
    layers[6].input_layernorm.variance_epsilon = 0.5
    assert shortened(model) is None
    layers[6].input_layernorm.variance_epsilon = layers[5].input_layernorm.variance_epsilon
    layers[6].mlp.up_proj = torch.nn.Linear(32, 48, bias=True, device="meta")
    assert shortened(model) is None
    layers[6].mlp.up_proj = torch.nn.Linear(32, 48, bias=False, device="meta", dtype=torch.bfloat16)
    model.config.layer_types = ["full_attention"] * 8 + ["sliding_attention"]
    assert shortened(model) is None
    model.config.layer_types = None
    model.config.model_type = "gpt2"
    assert shortened(model) is None
    model.config.model_type = "llama"
    assert shortened(model) == ("model.layers", LAYERS)
    assert len(model.model.layers) == KEPT


def test_layers_that_turn_out_different_are_not_copied() -> None:
    program = traced("llama", quick=False, num_hidden_layers=KEPT)
    whole = restored(program, "model.layers", LAYERS)
    assert whole is not None
    assert len(whole.calls) > 2 * len(program.calls) - 40
    place = next(i for i, call in enumerate(program.calls) if call.module.startswith("model.layers.2.mlp"))
    other = replace(program.calls[place], target="aten.other.default")
    changed = replace(program, calls=(*program.calls[:place], other, *program.calls[place + 1 :]))
    assert restored(changed, "model.layers", LAYERS) is None
