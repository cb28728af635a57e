"""Graphs survive their JSON form, and a changed file gives a good graph or one `ModelError`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from copy import copy
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.core.graph import Block, Feed, ModelGraph, Module, Node, Parameter, Repeat, Value
from planner.errors import ModelError
from planner.importers import load_model
from planner.importers.graph_json import read_graph, with_source, write_graph
from planner.importers.graph_json.form import from_plain, to_plain
from planner.verify import verify_graph
from tests.tiny import MODELS, SIZES


def tiny(name: str) -> ModelGraph:
    return load_model(json.dumps(SIZES | MODELS[name]))


@pytest.mark.parametrize("name", ["llama-3-8b", "mistral-7b-v0.1", "mixtral-8x7b", "qwen3-235b-a22b", "gpt3-175b"])
def test_zoo_round_trip(name: str) -> None:
    graph = load_model(name)
    assert read_graph(write_graph(graph), name, source=graph.source) == graph


def test_the_graph_is_its_own_source() -> None:
    graph = with_source(tiny("llama"))
    again = read_graph(graph.source.content, "the file")
    assert again == graph
    assert not verify_graph(again)
    spread = json.dumps(json.loads(graph.source.content), indent=2)
    assert read_graph(spread, "the file") == graph


def test_results_may_be_left_out() -> None:
    graph = with_source(tiny("mixtral"))
    plain = json.loads(graph.source.content)
    for node in _nodes(plain["root"]):
        del node["results"]
    assert read_graph(json.dumps(plain), "the file") == graph


def test_repeats_of_some_layers() -> None:
    """Names with ranges of layers survive, and alternating layers start with either of two paths."""
    text = write_graph(tiny("llama")).replace("model.layers.*", "model.layers.3-6+1")
    text = text.replace("3-6+1", "3-6").replace('"repeat":"model.layers"', '"repeat":"model.layers.3-6"')
    text = text.replace('"count":2', '"count":4').replace('["model.layers"', '["model.layers.3-6"')
    graph = read_graph(text.replace('["model.layers.3-6","ModuleList"]', '["model.layers","ModuleList"]'), "the file")
    assert not verify_graph(graph)
    assert graph.root.repeats[0].templates == ("model.layers.3-6",)
    assert read_graph(write_graph(graph), "the file") == graph
    with pytest.raises(ModelError) as caught:
        read_graph(write_graph(graph).replace('"count":4', '"count":3'), "the file")
    assert caught.value.code == "model.graph-repeat"


def test_every_field_is_written() -> None:
    """A field that is added to the noun and forgotten here would be lost without a word."""
    # Stages come of the decisions of a plan, after a model is read.
    derived = {(ModelGraph, "source"), (ModelGraph, "stages"), (Node, "rule"), (Repeat, "results")}
    graph = tiny("llama")
    for kind in (ModelGraph, Block, Node, Parameter, Repeat, Value, Module, Feed):
        for field in fields(kind):
            if (kind, field.name) not in derived:
                assert _with_other(graph, kind, field.name) != write_graph(graph), f"{kind.__name__}.{field.name}"


def _with_other(graph: ModelGraph, kind: type, name: str) -> str:
    """Return the text of a graph of which one field of one part has another value."""
    root = graph.root
    if kind is ModelGraph:
        return write_graph(_changed(graph, name))
    if kind is Module:
        return write_graph(replace(graph, modules=(_changed(graph.modules[0], name), *graph.modules[1:])))
    if kind is Feed:
        # What is fed with is not changed as far as to make sense.
        feed = copy(graph.feeds[0])
        object.__setattr__(feed, name, _other(getattr(feed, name), name))
        return write_graph(replace(graph, feeds=(feed, *graph.feeds[1:])))
    if kind is Block:
        return write_graph(replace(graph, root=_changed(root, name)))
    if kind is Parameter:
        return write_graph(replace(graph, root=replace(root, parameters=(_changed(root.parameters[0], name),))))
    if kind is Value:
        return write_graph(replace(graph, root=replace(root, inputs=(_changed(root.inputs[0], name),))))
    body = tuple(_changed(item, name) if isinstance(item, kind) else item for item in root.body)
    return write_graph(replace(graph, root=replace(root, body=body)))


def _changed(part: Any, name: str) -> Any:
    return replace(part, **{name: _other(getattr(part, name), name)})


def _other(value: Any, name: str) -> Any:
    if value is None:
        return -1
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, int):
        return value + 1
    if isinstance(value, tuple):
        return value[:-1] if value else (("eps", 2.0),) if name == "attributes" else ("x",)
    return replace(value, outputs=()) if isinstance(value, Block) else replace(value, dtype="int32")


@given(
    st.one_of(
        st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False), st.booleans(), st.text(),
        st.lists(st.integers(-(1 << 63), (1 << 63) - 1)).map(tuple), st.lists(st.floats(allow_nan=False)).map(tuple),
        st.lists(st.booleans()).map(tuple),
    )
)  # fmt: skip
def test_attributes_round_trip(value: Any) -> None:
    again = from_plain(json.loads(json.dumps(to_plain(value), allow_nan=False)))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize("value", [math.nan, 1 << 63, -(1 << 63) - 1])
def test_numbers_that_no_file_holds(value: float) -> None:
    with pytest.raises(ModelError) as caught:
        to_plain(value)
    assert caught.value.code == "model.graph-number"


def _nodes(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for item in block["body"]:
        if "repeat" in item:
            yield from _nodes(item["block"])
        else:
            yield item


def _edit(path: str, value: Any) -> str:
    """Return the text of a tiny graph with one place changed; `...` takes the place away."""
    plain = json.loads(write_graph(tiny("llama")))
    *way, last = (int(step) if step.isdigit() else step for step in path.split("/"))
    at = plain
    for step in way:
        at = at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return json.dumps(plain)


@pytest.mark.parametrize(
    ("path", "value", "code", "place"),
    [
        ("format", "x", "model.graph-format", ""),
        ("version", 2, "model.graph-version", ""),
        ("version", True, "model.graph-version", ""),
        ("root", ..., "model.graph-schema", ""),
        ("extra", 1, "model.graph-schema", ""),
        ("name", "a\nb", "model.graph-schema", "name"),
        ("logits", "nothing", "model.graph-name", "logits"),
        ("longest_seq", -1, "model.graph-schema", "longest_seq"),
        ("feeds/0/kind", "money", "model.graph-schema", "feeds[0]"),
        ("feeds/0/name", "labels", "model.graph-name", "feeds"),
        ("feeds/1/next_of", "nothing", "model.graph-name", "feeds[1]"),
        ("feeds/0/high", "9", "model.graph-schema", "feeds[0].high"),
        ("fixed", ["a\nb"], "model.graph-schema", "fixed[0]"),
        ("modules", [], "model.graph-name", "modules"),
        ("modules/0/1", "os;system", "model.graph-schema", "modules[0][1]"),
        ("modules/1/0", "x.y", "model.graph-name", "modules[1][0]"),
        ("modules/2/0", "model", "model.graph-name", "modules[2][0]"),
        ("root/inputs/0/1", "int64[B, -S]", "model.graph-schema", "root.inputs[0][1]"),
        ("root/inputs/0/1", "int64[B, -1·S]", "model.graph-size", "root.inputs[0][1]"),
        ("root/inputs/0/1", "int64[B, T]", "model.graph-size", "root.inputs[0][1]"),
        ("root/inputs/0/1", "int64[0]", "model.graph-size", "root.inputs[0][1]"),
        ("root/inputs/0/0", 'x"; import os', "model.graph-schema", "root.inputs[0][0]"),
        ("root/inputs/1/0", "tokens", "model.graph-name", "root.inputs[1][0]"),
        ("root/parameters/0/1", "compute[B]", "model.graph-size", "root.parameters[0][1]"),
        ("root/parameters/0/1", "compute[999999999999, 999999999999]", "model.graph-size", "root.parameters[0][1]"),
        ("root/parameters/0/2", "random", "model.graph-schema", "root.parameters[0][2]"),
        ("root/body/0/op", "exec", "model.graph-name", "root.body[0].op"),
        ("root/body/0/operands/0", "loss", "model.graph-name", "root.body[0].operands[0]"),
        ("root/body/0/operands", [], "model.graph-operator", "root.body[0]"),
        ("root/body/0/operands", ["tokens", "tokens"], "model.graph-operator", "root.body[0].results"),
        ("root/body/0/results", ["compute[B, S, 33]"], "model.graph-operator", "root.body[0].results"),
        ("root/body/0/module", "elsewhere", "model.graph-name", "root.body[0].module"),
        ("root/body/0/attributes", {"a b": 1}, "model.graph-schema", "root.body[0].attributes"),
        ("root/body/0/attributes", {"a": None}, "model.graph-schema", "root.body[0].attributes.a"),
        ("root/body/0/attributes", {"a": [[1]]}, "model.graph-schema", "root.body[0].attributes.a"),
        ("root/body/1/name", "model.embed_tokens", "model.graph-name", "root.body[1].name"),
        ("root/body/2/count", 0, "model.graph-schema", "root.body[2].count"),
        ("root/body/2/count", 1e3, "model.graph-schema", "root.body[2].count"),
        ("root/body/2/operands", ["tokens"], "model.graph-repeat", "root.body[2].operands"),
        ("root/body/2/operands/0", "tokens", "model.graph-repeat", "root.body[2].operands"),
        ("root/body/2/block/outputs/0", "cos", "model.graph-repeat", "root.body[2].block"),
        ("root/body/2/block/body/0/name", "norm", "model.graph-name", "root.body[2].block.body[0].name"),
        ("root/outputs", [], "model.graph-loss", "root.outputs"),
        ("root/outputs/0", "lm_head", "model.graph-loss", "root.outputs"),
    ],
)
def test_the_error_names_the_place(path: str, value: Any, code: str, place: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_graph(_edit(path, value), "graph.json")
    assert caught.value.code == code
    assert caught.value.diagnostic.subject in (place, "graph.json")
    assert "graph.json" in str(caught.value)


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield at
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _places(part, (*at, key))


_TEXT = {name: write_graph(tiny(name)) for name in ("llama", "mixtral")}
_PLACES = {name: [place for place in _places(json.loads(text)) if place] for name, text in _TEXT.items()}
_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 1 << 60), st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "B", "tokens", "loss", "x:0", "compute[]", "compute[B, S]", "int64[S]", "linear", "unknown"]),
    st.text(max_size=8), st.lists(st.integers(-3, 9), max_size=4), st.just({}),
)  # fmt: skip


@settings(deadline=None)
@given(st.data())
def test_changed_files(data: st.DataObject) -> None:
    """A file changed at random is a graph that holds its invariants, or one `ModelError`."""
    name = data.draw(st.sampled_from(sorted(_TEXT)))
    plain = json.loads(_TEXT[name])
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(_PLACES[name]))
        at: Any = plain
        try:
            for step in way:
                at = at[step]
            at[last]
        except (LookupError, TypeError):
            continue
        action = data.draw(st.sampled_from(("value", "drop", "other")))
        if action == "drop":
            del at[last]
        elif action == "value":
            at[last] = data.draw(_VALUES)
        else:
            other: Any = plain
            try:
                for step in data.draw(st.sampled_from(_PLACES[name])):
                    other = other[step]
            except (LookupError, TypeError):
                continue
            at[last] = json.loads(json.dumps(other))
    try:
        graph = read_graph(json.dumps(plain), "graph.json")
    except ModelError:
        return
    assert not verify_graph(graph)
    assert read_graph(write_graph(graph), "graph.json") == graph
