"""Files that are changed at random give a graph, or one `ModelError`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from planner.core.symbol import evaluate
from planner.errors import ModelError
from planner.importers import load_bytes
from planner.importers.pt2.expression import read_size
from planner.verify import verify_graph
from tests.importers.onnx.files import exported
from tests.importers.pt2.archives import classifier_archive, decoder_archive, members, zipped

LOOSE = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def _read(data: bytes, name: str) -> None:
    try:
        graph = load_bytes(data, name)
    except ModelError:
        return
    assert not verify_graph(graph)


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    for key, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if key not in {"metadata", "device", "strides", "hint"}:
            yield from _places(part, (*at, key))


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(1 << 62), 1 << 62), st.integers(-3, 9),
    st.floats(allow_nan=False, width=32),
    st.sampled_from(["", "embedding", "add", "p_head_weight", "torch.ops.aten.add.Tensor", "torch.ops.aten.view.default"
                     ]),
    st.text(max_size=6), st.lists(st.integers(-3, 9), max_size=3), st.just({}), st.just({"as_int": 3}),
    st.just({"as_none": True}), st.just({"as_tensor": {"name": "embedding"}}),
)  # fmt: skip


@LOOSE
@given(st.data())
def test_archives_with_changed_graphs(data: st.DataObject) -> None:
    parts = members(decoder_archive() if data.draw(st.booleans()) else classifier_archive())
    (path,) = (name for name in parts if name.endswith("models/model.json"))
    graph = json.loads(parts[path])
    places = [place for place in _places(graph["graph_module"]) if len(place) > 1]
    for _ in range(data.draw(st.integers(1, 3))):
        *way, last = data.draw(st.sampled_from(places))
        at = graph["graph_module"]
        try:
            for step in way:
                at = at[step]
            at[last]
        except (LookupError, TypeError):
            continue
        if data.draw(st.booleans()):
            at[last] = data.draw(VALUES)
        else:
            other = graph["graph_module"]
            try:
                for step in data.draw(st.sampled_from(places)):
                    other = other[step]
            except (LookupError, TypeError):
                continue
            at[last] = json.loads(json.dumps(other))
    _read(zipped(parts | {path: json.dumps(graph).encode()}), "model.pt2")


@LOOSE
@given(st.data())
def test_files_with_changed_bytes(data: st.DataObject) -> None:
    which = data.draw(st.sampled_from(("archive", "decoder", "classifier")))
    name, source = ("model.pt2", decoder_archive()) if which == "archive" else ("model.onnx", exported(which))
    changed = bytearray(source)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(changed) - 1))
        match data.draw(st.sampled_from(("byte", "cut", "insert", "copy"))):
            case "byte":
                changed[at] = data.draw(st.integers(0, 255))
            case "cut":
                del changed[at : at + data.draw(st.integers(1, 40))]
            case "insert":
                changed[at:at] = data.draw(st.binary(max_size=12))
            case _:
                start = data.draw(st.integers(0, len(changed) - 1))
                changed[at:at] = changed[start : start + 60]
        if not changed:
            return
    _read(bytes(changed), name)


@given(st.binary(max_size=200), st.sampled_from(("model.pt2", "model.onnx", "graph.json")))
def test_files_of_noise(noise: bytes, name: str) -> None:
    _read(noise, name)
    _read(b"PK" + noise, name)
    _read(b"\x08\x0a\x3a" + noise, name)


_SIZES = st.recursive(
    st.one_of(st.integers(0, 99).map(str), st.sampled_from(["s0", "s1", "Symbol('s0', positive=True, integer=True)"])),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "*", "-"]), inner).map(lambda part: f"({part[0]} {part[1]} {part[2]})"),
        st.tuples(st.sampled_from(["Add", "Mul"]), inner, inner).map(lambda part: f"{part[0]}({part[1]}, {part[2]})"),
        inner.map(lambda part: f"-{part}"), inner.map(lambda part: f"Integer({part})"),
        inner.map(lambda part: f"Pow({part}, Integer(2))"),
    ),
    max_leaves=8,
)  # fmt: skip


@given(_SIZES)
def test_sizes_are_what_the_text_says(text: str) -> None:
    """The text of a size, evaluated as Python by the test, is the polynomial that was read."""
    size = read_size(text, {"s0": "B", "s1": "S"})
    assert size is not None
    names: dict[str, Any] = {
        "s0": 3, "s1": 5, "Symbol": lambda *_, **__: 3, "Integer": int, "Add": lambda a, b: a + b,
        "Mul": lambda a, b: a * b, "Pow": lambda a, b: a**b,
    }  # fmt: skip
    assert evaluate(size, frozenset({("B", 3), ("S", 5)})) == eval(text, {"__builtins__": {}}, names)


@given(st.text(max_size=60))
def test_other_texts_are_no_sizes(text: str) -> None:
    assert read_size(f"{text}!", {"s0": "B"}) is None
    read_size(text, {"s0": "B"})
