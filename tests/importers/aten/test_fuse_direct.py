"""Traced configs against the direct builders: the same operators of the same operands, up to names and order.

`test_direct` compares names and order too, of decoders; here are GPT-2 and other sizes.
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import sha256
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from planner.core.graph import Block  # noqa: E402
from planner.importers import load_model  # noqa: E402
from planner.importers.aten.constants import fold_constants  # noqa: E402
from planner.importers.aten.fuse import fuse  # noqa: E402
from planner.importers.aten.lower import lower  # noqa: E402
from planner.importers.aten.strip import strip  # noqa: E402
from planner.importers.tracing.hf import trace_config  # noqa: E402
from tests.importers.unrolled import unrolled  # noqa: E402
from tests.tiny import GPT2, tiny_config  # noqa: E402

QUICK: dict[str, dict[str, Any]] = {"gpt2": GPT2}
SLOW: dict[str, dict[str, Any]] = {
    "gpt2-dropout": GPT2 | {"resid_pdrop": 0.25, "attn_pdrop": 0.5, "embd_pdrop": 0.1},
    "gpt2-untied": GPT2 | {"tie_word_embeddings": False, "activation_function": "gelu"},
    "llama-tied": tiny_config("llama", tied=True),
    "llama-one-group": tiny_config("llama", num_key_value_heads=1),
    "llama-each-its-own": tiny_config("llama", num_key_value_heads=8),
    "qwen3-experts-shared": tiny_config("qwen3-experts", norm_topk_prob=True, num_experts_per_tok=3),
}


def check(values: dict[str, Any]) -> None:
    """Check that a config's trace and its direct graph say the same."""
    content = json.dumps(values)
    traced = lower(fuse(fold_constants(strip(trace_config(content, "tiny"))))).block
    direct, _ = unrolled(load_model(content))
    assert Counter(n.op for n in traced.nodes) == Counter(n.op for n in direct.nodes)
    assert {p.name: p.meta for p in traced.parameters} == {p.name: p.meta for p in direct.parameters}
    assert tree(traced) == tree(direct)


def tree(block: Block) -> list[str]:
    """Return digests of what the outputs are: trees of operators down to inputs and parameters."""
    digests = {v.name: v.name for v in block.inputs} | {p.name: p.name for p in block.parameters}
    for node in block.nodes:
        # Which generator drops is a trace's own affair.
        attributes = [(k, v) for k, v in node.attributes if (node.op, k) != ("dropout", "seed")]
        operands = [digests[name] for name in node.operands]
        if node.op == "add":
            operands.sort()
        text = sha256(f"{node.op}{attributes}{operands}".encode()).hexdigest()
        digests |= {value.name: f"{text}:{place}" for place, value in enumerate(node.results)}
    return [digests[name] for name in block.outputs]


@pytest.mark.parametrize("name", QUICK)
def test_trace_and_builder_agree(name: str) -> None:
    check(QUICK[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_more_traces_and_builders_agree(name: str) -> None:
    check(SLOW[name])
