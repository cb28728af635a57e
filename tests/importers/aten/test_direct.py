"""A traced decoder is the graph that its direct builder makes, name for name and in the same order."""

import json
from typing import Any

import pytest

from planner.compose import load_model
from planner.core.graph import ModelSource
from planner.core.json_text import digest
from planner.importers.aten.build import build
from planner.importers.tracing.hf import trace_config
from planner.verify import verify_graph
from tests.tiny import tiny_config

pytest.importorskip("torch")
pytest.importorskip("transformers")

QUICK = ["llama-biased", "mixtral"]
SLOW = ["llama", "qwen2", "qwen3", "qwen3-biased", "qwen3-experts", "mistral", "mistral-window"]


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_the_trace_is_the_direct_graph(name: str) -> None:
    values: dict[str, Any] = tiny_config(name)
    direct = load_model(json.dumps(values))
    text = json.dumps(values)
    source = ModelSource(name=name, kind="hf_config", digest=digest(text), content=text)
    traced = build(trace_config(text, name), source, name)
    assert verify_graph(traced) == ()
    assert traced.root == direct.root
    # Siblings come in the order in which a model registers them, which is no part of what it computes.
    assert set(traced.modules) == set(direct.modules)
    assert (traced.logits, traced.feeds) == (direct.logits, direct.feeds)
