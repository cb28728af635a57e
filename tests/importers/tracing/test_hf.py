"""Covers: tracing.hf, tracing.heads and transformers_config: configs of any type."""

from __future__ import annotations

import json
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from planner.core.json_text import digest  # noqa: E402
from planner.errors import ModelError  # noqa: E402
from planner.importers.aten.program import Program, reads  # noqa: E402
from planner.importers.tracing.heads import HEADS  # noqa: E402
from planner.importers.tracing.hf import build_model, choose_head, trace_config  # noqa: E402
from planner.importers.transformers_config import canonical_config  # noqa: E402

SMALL = {"vocab_size": 96, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
ROWS: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "llama": (SMALL, {"tokens": "int64[B, S]", "labels": "int64[B, S]"}, "LlamaForCausalLM"),
    "bert": (SMALL, {"tokens": "int64[B, S]", "labels": "int64[B, S]"}, "BertForMaskedLM"),
    "bart": (
        {"vocab_size": 96, "d_model": 48, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64},
        {"tokens": "int64[B, S]", "decoder_tokens": "int64[B, S]", "labels": "int64[B, S]"},
        "BartForConditionalGeneration",
    ),
    "vit": (SMALL | {"image_size": 32, "patch_size": 8}, {"images": "compute[B, 3, 32, 32]", "labels": "int64[B]"},
            "ViTForImageClassification"),
    "whisper": (
        {"vocab_size": 96, "d_model": 48, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_source_positions": 20,
         "num_mel_bins": 8, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3},
        {"frames": "compute[B, 8, 40]", "decoder_tokens": "int64[B, S]", "labels": "int64[B, S]"},
        "WhisperForConditionalGeneration",
    ),
}  # fmt: skip


def trace_type(kind: str, **values: Any) -> Program:
    return trace_config(canonical_config({"model_type": kind, **values}, kind), kind)


@pytest.mark.parametrize(
    "kind", [kind if kind in {"bert", "vit"} else pytest.param(kind, marks=pytest.mark.slow) for kind in ROWS]
)
def test_models_of_each_kind_have_their_inputs_and_a_loss(kind: str) -> None:
    values, inputs, class_name = ROWS[kind]
    program = trace_type(kind, **values)
    assert {one.name: str(one.meta) for one in program.inputs} == inputs
    assert program.modules[0] == ("", class_name)
    assert program.fixed == ()
    model, _, _ = build_model({"model_type": kind, **values}, kind, torch.bfloat16)
    wanted = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert {weight.path: weight.meta.shape for weight in program.weights} == wanted
    # In order, and the loss is a scalar that is made last of what it needs.
    known = {one.name for one in (*program.inputs, *program.weights, *program.buffers)}
    for call in program.calls:
        assert set(reads(call)) <= known
        known |= {call.result(i) for i in range(max(1, len(call.results)))}
    assert set(program.outputs) <= known
    assert next(call for call in program.calls if call.name == program.outputs[0]).results[0].shape == ()


def test_the_architecture_chooses_the_head_and_another_one_is_noted() -> None:
    assert choose_head("bert", ["BertForSequenceClassification"], "x")[1:] == ("BertForSequenceClassification", ())
    assert choose_head("bert", ["BertLMHeadModel"], "x")[0] is HEADS["causal language model"]
    _, class_name, notes = choose_head("bert", ["BertForPreTraining"], "x")
    assert class_name == "BertForMaskedLM"
    assert notes == (
        "There is no loss for the architecture BertForPreTraining; the model is planned as BertForMaskedLM.",
    )
    with pytest.raises(ModelError, match="no loss is known") as caught:
        choose_head("detr", None, "x")
    assert caught.value.code == "model.head-unknown"


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"model_type": "no-such-type"}, "model.type-unknown"),
        ({"model_type": "opt", "num_attention_heads": 5}, "model.config-invalid"),
        ({"model_type": "opt", "hidden_size": "wide"}, "model.config-invalid"),
        ({"model_type": "opt", "num_hidden_layers": 10**6}, "model.config-bounds"),
        ({"model_type": "mixtral", "num_local_experts": 10**9}, "model.config-bounds"),
        ({"model_type": "opt", "vocab_size": 1 << 50}, "model.config-bounds"),
        ({"vocab_size": 7}, "model.config-missing"),
    ],
)
def test_what_is_wrong_is_one_sentence(values: dict[str, Any], code: str) -> None:
    with pytest.raises(ModelError) as caught:
        trace_config(canonical_config(values, "x"), "x")
    assert caught.value.code == code
    assert "\n" not in str(caught.value)
    assert caught.value.diagnostic.hint


def test_code_that_a_config_names_is_not_run(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('ran')")
    monkeypatch.chdir(tmp_path)
    evil = {"AutoModelForCausalLM": "evil.Model"}
    values = {"model_type": "opt", "auto_map": evil, "custom_pipelines": {"x": "y"}}
    content = canonical_config(values, "x")
    assert "evil" not in content
    given = json.loads(content) | {"num_hidden_layers": 1, "auto_map": evil}
    model, _, _ = build_model(given, "x", torch.bfloat16)
    assert type(model).__module__.startswith("transformers.models.opt.")


def test_the_canonical_form_keeps_what_shapes_the_model() -> None:
    one = {"model_type": "opt", "hidden_size": 8, "torch_dtype": "float16", "_name_or_path": "/x", "use_cache": True}
    other = {"use_cache": False, "hidden_size": 8, "model_type": "opt", "transformers_version": "4.1"}
    text = canonical_config(one, "x")
    assert text == canonical_config(other, "x") == '{"hidden_size":8,"model_type":"opt"}'
    assert canonical_config(json.loads(text), "x") == text
    assert digest(text) != digest(canonical_config(one | {"hidden_size": 9}, "x"))


def test_layers_that_are_left_out_at_random_are_kept_and_that_is_said() -> None:
    values: dict[str, Any] = {
        "vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
        "conv_dim": [8], "conv_stride": [320], "conv_kernel": [320], "num_feat_extract_layers": 1,
        "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
        "architectures": ["Wav2Vec2ForSequenceClassification"],
    }  # fmt: skip
    assert any("layerdrop" in sentence for sentence in trace_type("wav2vec2", **values).fixed)
    assert trace_type("wav2vec2", layerdrop=0.0, **values).fixed == ()
