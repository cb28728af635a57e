"""Repeated layers are found in graphs whose layers were written out: the same graph comes back."""

import pytest

from planner.compose import load_model
from planner.importers.aten.layers import find_layers
from tests.importers.unrolled import unrolled

ZOO = ["llama-3-8b", "qwen3-8b", "mixtral-8x7b", "gpt2-xl", "llama-3.1-405b", "qwen2.5-7b"]


@pytest.mark.parametrize("name", ZOO)
def test_a_graph_that_was_written_out(name: str) -> None:
    graph = load_model(name)
    block, modules = unrolled(graph)
    assert not block.repeats
    found = find_layers(block, modules)
    assert found.block == graph.root
    assert found.modules == graph.modules
