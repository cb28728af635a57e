"""Repeated layers are found in graphs whose layers are written out: the same graph comes back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from planner.compose import load_model
from planner.core.graph import Block, ModelGraph, Module, Repeat
from planner.core.symbol import symbol
from planner.core.tensor import TensorMeta
from planner.importers.aten.layers import Folded, find_layers
from planner.importers.builder import BlockBuilder
from tests.importers.unrolled import unrolled

ZOO = ["llama-3-8b", "qwen3-8b", "mixtral-8x7b", "gpt2-xl", "llama-3.1-405b", "qwen2.5-7b"]
STREAM = TensorMeta((symbol("B"), symbol("S"), 8))


@pytest.mark.parametrize("name", ZOO)
def test_a_graph_that_was_written_out(name: str) -> None:
    graph = load_model(name)
    block, modules = unrolled(graph)
    assert not block.repeats
    found = find_layers(block, modules)
    assert found.block == graph.root
    assert found.modules == graph.modules


def layer(build: BlockBuilder, path: str, x: str, *, op: str = "relu", wide: int = 8) -> str:
    """Add x + down(op(up(x)))."""
    up = build.parameter(f"{path}.up.weight", (wide, 8))
    (y,) = build.node(f"{path}.up", "linear", x, up)
    (y,) = build.node(f"{path}/act", op, y)
    down = build.parameter(f"{path}.down.weight", (8, wide))
    (y,) = build.node(f"{path}.down", "linear", y, down)
    return build.node(f"{path}/add", "add", x, y)[0]


Make = Callable[[BlockBuilder, str, str], str]
"""Adds a layer of this path that reads a value, and returns what it makes."""


def folded(*made: Make, outputs: Callable[[list[str]], list[str]] | None = None) -> Folded:
    """Return the layers of a list `body.l` that these make, folded."""
    build = BlockBuilder()
    x = build.input("x", STREAM)
    values = []
    modules = [Module(path="", class_name="Model"), Module(path="body", class_name="Body")]
    modules.append(Module(path="body.l", class_name="ModuleList"))
    for index, make in enumerate(made):
        path = f"body.l.{index}"
        x = make(build, path, x)
        values.append(x)
        modules.append(Module(path=path, class_name="Layer"))
        modules += [Module(path=f"{path}.{part}", class_name="Linear") for part in ("up", "down")]
    wanted = outputs(values) if outputs else [x]
    ends = [build.node(f"end{i}", "sin", value, module="")[0] for i, value in enumerate(wanted)]
    return find_layers(build.block(*ends), tuple(modules))


def relu(build: BlockBuilder, path: str, x: str) -> str:
    return layer(build, path, x)


def sine(build: BlockBuilder, path: str, x: str) -> str:
    return layer(build, path, x, op="sin")


def wide(build: BlockBuilder, path: str, x: str) -> str:
    return layer(build, path, x, wide=16)


def names(found: Folded) -> list[tuple[str, int]]:
    return [(repeat.name, repeat.count) for repeat in found.block.repeats]


def written_out_again(found: Folded) -> Block:
    root = ModelGraph(name="", source=None, root=found.block, modules=found.modules)  # type: ignore[arg-type]
    return unrolled(root)[0]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([relu] * 4, [("body.l", 4)]),
        ([relu], []),
        ([relu, sine], []),
        ([relu, relu, sine, sine, sine], [("body.l.0-1", 2), ("body.l.2-4", 3)]),
        ([wide, relu, relu], [("body.l.1-2", 2)]),
        ([relu, relu, wide], [("body.l.0-1", 2)]),
        ([relu, sine] * 3, [("body.l.0-5", 3)]),
        ([relu, sine] * 2 + [relu], [("body.l.0-3", 2)]),
        ([relu, relu, sine] * 2, [("body.l.0-5", 2)]),
        ([wide, relu, sine, relu, sine, wide], [("body.l.1-4", 2)]),
        ([*[relu] * 5, sine, *[relu] * 5, sine, relu], [("body.l.0-11", 2)]),
    ],
)
def test_kinds(made: list[Make], expected: list[tuple[str, int]]) -> None:
    found = folded(*made)
    assert names(found) == expected
    # Nothing is lost: written out, it is what it was.
    build = BlockBuilder()
    x = build.input("x", STREAM)
    for index, make in enumerate(made):
        x = make(build, f"body.l.{index}", x)
    build.node("end0", "sin", x, module="")
    before, after = build.block("end0"), written_out_again(found)
    assert after.body == before.body
    assert {p.name: p for p in after.parameters} == {p.name: p for p in before.parameters}


def test_what_is_read_after_the_last_layer_is_carried() -> None:
    """All results read: nothing is folded; the one before the last read as well: the last two stay written out."""
    assert names(folded(*[relu] * 4, outputs=lambda values: values)) == []
    assert names(folded(*[relu] * 4, outputs=lambda values: [values[-1], values[1]])) == [
        ("body.l.0-1", 2),
        ("body.l.2-3", 2),
    ]


def test_what_is_not_carried_is_read_of_a_layer_that_is_written_out() -> None:
    found = folded(*[relu] * 4, outputs=lambda values: [values[-1], "body.l.3.up"])
    assert names(found) == [("body.l.0-2", 3)]
    assert found.block.nodes[-1].operands == ("body.l.3.up",)


def test_captured_and_carried_values() -> None:
    """Captured: a value, an input and a parameter outside; carried: two values, of which one starts as the other."""
    build = BlockBuilder()
    x, mask = build.input("x", STREAM), build.input("mask", STREAM)
    scale = build.parameter("scale", (8,))
    (start,) = build.node("start", "sin", x)
    a = b = start
    for index in range(3):
        path = f"l.{index}"
        (y,) = build.node(f"{path}/mul", "mul", a, mask)
        (y,) = build.node(f"{path}/mul_2", "mul", y, scale)
        (b,) = build.node(f"{path}/add", "add", y, b)
        (a,) = build.node(f"{path}/add_2", "add", b, start)
    (end,) = build.node("end", "add", a, b)
    modules = [Module(path=p, class_name="L") for p in ("", "start", "end", "l", "l.0", "l.1", "l.2")]
    (repeat,) = find_layers(build.block(end), tuple(modules)).block.repeats
    # The first iteration's `start` is read as what is captured, and as what is carried.
    assert (repeat.name, repeat.count) == ("l", 3)
    assert [value.name for value in repeat.block.inputs] == ["add_2", "add", "mask", "scale", "start"]
    assert repeat.operands == ("start", "start", "mask", "scale", "start")
    assert repeat.block.outputs == ("l.*/add_2", "l.*/add")


def test_code_between_layers() -> None:
    """What does not need the layers comes before them; what does keeps them apart."""
    build = BlockBuilder()
    x = build.input("x", STREAM)
    free = layer(build, "l.0", x)
    (other,) = build.node("other", "sin", "x")
    for index in (1, 2):
        free = layer(build, f"l.{index}", free)
    (end,) = build.node("end", "add", free, other)
    modules = tuple(Module(path=p, class_name="L") for p in ("", "other", "end", "l", "l.0", "l.1", "l.2"))
    found = find_layers(build.block(end), modules).block
    assert [item.name for item in found.body] == ["other", "l", "end"]

    build = BlockBuilder()
    x = build.input("x", STREAM)
    needing = layer(build, "l.0", x)
    (needing,) = build.node("other", "sin", needing)
    for index in (1, 2):
        needing = layer(build, f"l.{index}", needing)
    (end,) = build.node("end", "sin", needing)
    found = find_layers(build.block(end), modules).block
    assert [item.name for item in found.body if isinstance(item, Repeat)] == ["l.1-2"]


def test_a_parameter_that_is_read_elsewhere_keeps_its_layer_apart() -> None:
    build = BlockBuilder()
    x = build.input("x", STREAM)
    for index in range(3):
        x = layer(build, f"l.{index}", x)
    (end,) = build.node("end", "linear", x, "l.2.up.weight")
    modules = tuple(Module(path=p, class_name="L") for p in ("", "end", "l", "l.0", "l.1", "l.2"))
    found = find_layers(build.block(end), modules).block
    assert [item.name for item in found.repeats] == ["l.0-1"]


def test_the_range_of_a_name() -> None:
    found = folded(wide, relu, relu)
    (repeat,) = found.block.repeats
    assert [node.name for node in repeat.block.nodes] == [
        "body.l.1-2.up", "body.l.1-2/act", "body.l.1-2.down", "body.l.1-2/add",
    ]  # fmt: skip
    assert [m.path for m in found.modules] == [
        "", "body", "body.l", "body.l.0", "body.l.0.up", "body.l.0.down", "body.l.1-2", "body.l.1-2.up",
        "body.l.1-2.down",
    ]  # fmt: skip
