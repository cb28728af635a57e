"""The page's example is a graph, and the JSON Schema accepts what we write."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema_rs
import pytest

from planner.importers import load_model
from planner.importers.graph_json import read_graph, write_graph
from planner.verify import verify_graph

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SCHEMA = jsonschema_rs.validator_for(json.loads((REFERENCE / "graph-json.schema.json").read_text("utf-8")))
(EXAMPLE,) = re.findall(r"```json\n(.*?)```", (REFERENCE / "graph-json.md").read_text("utf-8"), re.DOTALL)


def test_the_example_is_a_graph() -> None:
    graph = read_graph(EXAMPLE, "the example")
    assert not verify_graph(graph)
    assert graph.parameter_count == 100 * 8 + 2 * 8 * 8
    SCHEMA.validate(json.loads(EXAMPLE))


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b", "gpt2"])
def test_the_schema_accepts_what_is_written(name: str) -> None:
    SCHEMA.validate(json.loads(write_graph(load_model(name))))


@pytest.mark.parametrize("key", ["format", "root", "modules"])
def test_the_schema_refuses(key: str) -> None:
    plain = json.loads(EXAMPLE)
    del plain[key]
    assert not SCHEMA.is_valid(plain)
