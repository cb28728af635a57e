"""Reading a GPT-2 config: defaults, refusals with their words, and what dropout makes of attention."""

import json
from typing import Any

import pytest

import planner
from planner.errors import ModelError, PlannerError
from planner.importers.gpt2_config import Gpt2Config
from planner.importers.hf_config import read_config
from tests.tiny import GPT2, tiny_gpt2


def read(values: dict[str, Any]) -> Gpt2Config:
    config = read_config(json.dumps(values), "x.json")
    assert isinstance(config, Gpt2Config)
    return config


def test_defaults_are_those_of_transformers() -> None:
    config = read({k: v for k, v in GPT2.items() if not k.endswith("pdrop") and k != "n_inner"})
    assert (config.embd_pdrop, config.attn_pdrop, config.resid_pdrop) == (0.1, 0.1, 0.1)
    assert (config.n_inner, config.activation_function, config.layer_norm_epsilon) == (128, "gelu_new", 1e-5)
    assert config.tie_word_embeddings


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"n_embd": None, "n_head": None}, "model.config-missing", "x.json lacks n_embd and n_head, which GPT2LMHead"),
        ({"n_head": 5}, "model.heads-not-divisible", "In x.json, n_embd 32 is no multiple of n_head 5."),
        ({"attn_pdrop": 1.0, "n_inner": "8"}, "model.config-value", "In x.json, attn_pdrop is 1.0, not a number from"),
        ({"activation_function": "relu"}, "model.activation-unsupported", 'x.json sets activation_function to "relu";'),
        ({"scale_attn_weights": False}, "model.attention-scale-unsupported", "x.json sets scale_attn_weights to false"),
        ({"add_cross_attention": True}, "model.cross-attention-unsupported", "x.json sets add_cross_attention to true"),
    ],
)
def test_refusals(changes: dict[str, Any], code: str, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        read(GPT2 | changes)
    assert caught.value.code == code
    assert str(caught.value).startswith(message)


def test_dropout_of_the_weights_takes_attention_apart() -> None:
    ops = [node.op for node in tiny_gpt2(attn_pdrop=0.5).root.repeats[0].block.nodes]
    start = ops.index("attention_scores")
    assert ops[start : start + 5] == ["attention_scores", "hide_future", "softmax", "dropout", "attend"]
    assert "attention" in [node.op for node in tiny_gpt2().root.repeats[0].block.nodes]


def test_sequences_end_with_the_table_of_positions() -> None:
    graph = planner.load_model("gpt2")
    assert graph.longest_seq == 1024
    plan = planner.Plan.new(graph, cluster="1x1-h100-sxm", mesh={"tp": 1}, global_batch=1, seq=1024)
    planner.evaluate(plan)
    with pytest.raises(PlannerError) as caught:
        planner.evaluate(plan.batch(global_batch=1, seq=1025, microbatches=1))
    assert caught.value.code == "plan.seq-too-long"
    assert str(caught.value).endswith("Use at most 1,024 tokens a sequence.")
