"""Every collective: its layouts, its refusals, its bytes by counted messages, its transpose."""

from typing import Any

import numpy as np
import pytest

from planner.collectives import COLLECTIVES
from planner.core.collective import Step
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from tests.collectives import wire
from tests.properties.strategies import assert_holds, split

MESH = DeviceMesh.of({"a": 2, "b": 3, "c": 2})
SHAPE = (24, 12)

# kind | source | arguments | target
ROWS: list[tuple[str, str, dict[str, Any], str]] = [
    ("all_gather", "[a, -]", {"axes": ("a",), "dim": 0}, "[-, -]"),
    ("all_gather", "[c·a·b, -]", {"axes": ("a", "b"), "dim": 0}, "[c, -]"),
    ("all_gather", "[-, b·c] +a", {"axes": ("b", "c"), "dim": 1}, "[-, -] +a"),
    ("all_reduce", "[-, -] +b", {"axes": ("b",)}, "[-, -]"),
    ("all_reduce", "[c, -] +a·b", {"axes": ("a", "b")}, "[c, -]"),
    ("all_reduce", "[c, -] +a·b", {"axes": ("a",)}, "[c, -] +b"),
    ("all_reduce", "[-, -] max(a·b)", {"axes": ("a", "b")}, "[-, -]"),
    ("all_reduce", "[-, -] min(a·b)", {"axes": ("b",)}, "[-, -] min(a)"),
    ("all_to_all", "[b, -]", {"axes": ("b",), "dim": 0, "to_dim": 1}, "[-, b]"),
    ("all_to_all", "[c·b·a, -]", {"axes": ("b", "a"), "dim": 0, "to_dim": 1}, "[c, b·a]"),
    ("all_to_all", "[b, c] +a", {"axes": ("b",), "dim": 0, "to_dim": 1}, "[-, c·b] +a"),
    ("exchange", "[a·b, -]", {"target": Layout.parse("[b·a, -]")}, "[b·a, -]"),
    ("exchange", "[a, b]", {"target": Layout.parse("[b, c]")}, "[b, c]"),
    ("exchange", "[a·b·c, -]", {"target": Layout.parse("[b·a·c, -]")}, "[b·a·c, -]"),
    ("exchange", "[a, -]", {"target": Layout.parse("[b, -]")}, "[b, -]"),
    ("exchange", "[a, -] +c", {"target": Layout.parse("[-, b] +c")}, "[-, b] +c"),
    ("exchange", "[a, c]", {"target": Layout.parse("[-, -]")}, "[-, -]"),
    ("pad", "[b, -]", {"axes": ("b",), "dim": 0}, "[-, -] +b"),
    ("pad", "[-, c·a·b]", {"axes": ("a", "b"), "dim": 1}, "[-, c] +a·b"),
    ("reduce_scatter", "[-, -] +b", {"axes": ("b",), "dim": 1}, "[-, b]"),
    ("reduce_scatter", "[c, -] +a·b", {"axes": ("b", "a"), "dim": 0}, "[c·b·a, -]"),
    ("reduce_scatter", "[-, -] +a·b", {"axes": ("a",), "dim": 0}, "[a, -] +b"),
    ("slice", "[-, -]", {"axes": ("b",), "dim": 0}, "[b, -]"),
    ("slice", "[c, -] +a", {"axes": ("b",), "dim": 0}, "[c·b, -] +a"),
    ("slice", "[-, -]", {"axes": ("c", "a"), "dim": 1}, "[-, c·a]"),
    ("zero", "[a, -]", {"axes": ("b",)}, "[a, -] +b"),
    ("zero", "[-, -] +c", {"axes": ("a", "b")}, "[-, -] +a·b·c"),
]
IDS = [f"{kind} {source} to {target}" for kind, source, _, target in ROWS]


def build(kind: str, source: str, arguments: dict[str, Any]) -> Step:
    return COLLECTIVES[kind].step(Layout.parse(source), SHAPE, MESH, **arguments)


def test_the_table_is_sorted_and_named_alike() -> None:
    assert list(COLLECTIVES) == sorted(COLLECTIVES)
    assert all(name == entry.name for name, entry in COLLECTIVES.items())
    assert all(entry.summary and entry.dual in COLLECTIVES for entry in COLLECTIVES.values())


def test_every_collective_has_a_row() -> None:
    assert {row[0] for row in ROWS} == set(COLLECTIVES)


@pytest.mark.parametrize(("kind", "source", "arguments", "target"), ROWS, ids=IDS)
def test_layout_and_shapes(kind: str, source: str, arguments: dict[str, Any], target: str) -> None:
    step = build(kind, source, arguments)
    assert str(step.target) == target
    assert step.source_shape == Layout.parse(source).local_shape(SHAPE, MESH)
    assert step.target_shape == Layout.parse(target).local_shape(SHAPE, MESH)
    assert step.group_size == MESH.size_of(step.axes)
    assert COLLECTIVES[kind].follow(step.source, step, MESH) == step.target


@pytest.mark.parametrize(("kind", "source", "arguments", "target"), ROWS, ids=IDS)
def test_ranks_hold_the_target(kind: str, source: str, arguments: dict[str, Any], target: str) -> None:
    rng = np.random.default_rng(1)
    array = rng.integers(-1000, 1000, SHAPE)
    world = split(array, Layout.parse(source), MESH, rng)
    before = [held.copy() for held in world]
    after = COLLECTIVES[kind].run(build(kind, source, arguments), world, MESH)
    assert_holds(after, array, Layout.parse(target), MESH)
    for held, kept in zip(world, before, strict=True):
        np.testing.assert_array_equal(held, kept, err_msg="the input was changed")


@pytest.mark.parametrize(("kind", "source", "arguments", "target"), ROWS, ids=IDS)
def test_counted_messages(kind: str, source: str, arguments: dict[str, Any], target: str) -> None:
    definition = COLLECTIVES[kind]
    step = build(kind, source, arguments)
    if definition.local:
        assert (definition.received(step, MESH), definition.sent(step, MESH)) == (0, 0)
        assert definition.rounds(step, MESH) == 0
        return
    if step.source.reduce != "sum":
        pytest.skip("the wire adds")
    rng = np.random.default_rng(2)
    world = split(rng.integers(-1000, 1000, SHAPE), step.source, MESH, rng)
    counted = wire.Wire(MESH.device_count)
    after = wire.run(step, world, MESH, counted)
    for held, expected in zip(after, definition.run(step, world, MESH), strict=True):
        np.testing.assert_array_equal(held, expected)
    assert max(counted.received) == definition.received(step, MESH)
    assert max(counted.sent) == pytest.approx(definition.sent(step, MESH), abs=1)
    assert definition.received_bytes(step, MESH, 2) == 2 * max(counted.received)


@pytest.mark.parametrize(("kind", "source", "arguments", "target"), ROWS, ids=IDS)
def test_dual_is_the_transpose(kind: str, source: str, arguments: dict[str, Any], target: str) -> None:
    """<y, A x> = <dual(A) y, x> over all ranks."""
    step = build(kind, source, arguments)
    definition = COLLECTIVES[kind]
    if step.source.reduce != "sum":
        pytest.skip("only sums are linear")
    if kind == "exchange" and step.source_elements * MESH.device_count != 24 * 12:
        pytest.skip("the transpose of an exchange adds where replicas are, so it is none")
    back = transposed(step)
    rng = np.random.default_rng(3)
    x = [rng.integers(-9, 9, step.source_shape) for _ in range(MESH.device_count)]
    y = [rng.integers(-9, 9, step.target_shape) for _ in range(MESH.device_count)]
    forward = definition.run(step, x, MESH)
    backward = COLLECTIVES[definition.dual].run(back, y, MESH)
    assert dot(y, forward) == dot(backward, x)


def transposed(step: Step) -> Step:
    """Return the dual step: `run` needs kind, axes, dims and shapes, whatever the layouts are called."""
    dim, to_dim = (step.dim, -1) if step.kind != "all_to_all" else (step.to_dim, step.dim)
    return Step(
        kind=COLLECTIVES[step.kind].dual,
        axes=step.axes,
        dim=dim,
        to_dim=to_dim,
        source=step.target,
        target=step.source,
        shape=step.shape,
        source_shape=step.target_shape,
        target_shape=step.source_shape,
        group_size=step.group_size,
    )


def dot(left: list[Any], right: list[Any]) -> int:
    return sum(int((a * b).sum()) for a, b in zip(left, right, strict=True))


REFUSALS: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "all_gather",
        "[a·b, -]",
        {"axes": ("a",), "dim": 0},
        "collective.not-minor: all_gather over a on dim 0 of [a·b, -]: that dim is sharded over a·b, "
        "which does not end with a. Name a minor-side part of a·b, in its order.",
    ),
    (
        "all_gather",
        "[a, -]",
        {"axes": ("b",), "dim": 1},
        "collective.not-minor: all_gather over b on dim 1 of [a, -]: that dim is sharded over nothing, "
        "which does not end with b. Name a dim that these axes shard.",
    ),
    (
        "all_gather",
        "[a, -]",
        {"axes": ("a",), "dim": 2},
        "collective.dim: all_gather on [a, -] names dim 2, the tensor has 2 dims. Name a dim from 0 to 1.",
    ),
    (
        "all_gather",
        "[a, -]",
        {"dim": 0},
        "collective.no-axes: all_gather on [a, -] names no mesh axis. Name at least one of: a, b, c.",
    ),
    (
        "slice",
        "[-, -]",
        {"axes": ("a", "a"), "dim": 0},
        "collective.axis-repeated: slice on [-, -] names an axis twice: a·a. Name each axis once.",
    ),
    (
        "all_reduce",
        "[-, -] +a",
        {"axes": ("a", "b")},
        "collective.not-partial: all_reduce over a·b on [-, -] +a: it is not partial over b. "
        "Name some of the partial axes: a.",
    ),
    (
        "reduce_scatter",
        "[-, -]",
        {"axes": ("a",), "dim": 0},
        "collective.not-partial: reduce_scatter over a on [-, -]: it is not partial over a. "
        "There is nothing to reduce in this layout.",
    ),
    (
        "reduce_scatter",
        "[-, -] max(a)",
        {"axes": ("a",), "dim": 0},
        "collective.not-sum: reduce_scatter on [-, -] max(a): only partial sums allow it, these are "
        "partial max. All-reduce over a first.",
    ),
    (
        "zero",
        "[-, -] max(a)",
        {"axes": ("b",)},
        "collective.not-sum: zero on [-, -] max(a): only partial sums allow it, these are partial max. "
        "All-reduce over a first.",
    ),
    (
        "zero",
        "[b, -]",
        {"axes": ("b",)},
        "collective.not-replicated: zero over b on [b, -]: b is used already. "
        "Name axes that the layout replicates: a, c.",
    ),
    (
        "slice",
        "[a, b] +c",
        {"axes": ("c",), "dim": 0},
        "collective.not-replicated: slice over c on [a, b] +c: c is used already. "
        "Name axes that the layout replicates: it has none.",
    ),
    (
        "all_to_all",
        "[a, -]",
        {"axes": ("a",), "dim": 0, "to_dim": 0},
        "collective.same-dim: all_to_all over a on [a, -] takes from dim 0 and gives to the same dim. Name two dims.",
    ),
    (
        "exchange",
        "[a, -] +b",
        {"target": Layout.parse("[a, b]")},
        "collective.partial-changed: exchange from [a, -] +b to [a, b] can't reduce or make partial "
        "results. Reduce them before it, or make them after it.",
    ),
    (
        "exchange",
        "[a, -]",
        {"target": Layout.parse("[a, -]")},
        "collective.no-axes: exchange from [a, -] to [a, -] has nothing to move. Leave it out.",
    ),
    ("exchange", "[a, -]", {}, "collective.no-target: exchange on [a, -] names no target. Give a layout."),
    (
        "exchange",
        "[a, -]",
        {"target": Layout.parse("[a]")},
        "layout.rank-mismatch: exchange from [a, -] to [a]: 2 dims and 1. Give layouts of the same tensor.",
    ),
    (
        "all_gather",
        "[a, -]",
        {"axes": ("x",), "dim": 0},
        "mesh.axis-unknown: The mesh a:2,b:3,c:2 has no axis 'x'. Use one of: a, b, c.",
    ),
    (
        "slice",
        "[-, b·a]",
        {"axes": ("c",), "dim": 2},
        "collective.dim: slice on [-, b·a] names dim 2, the tensor has 2 dims. Name a dim from 0 to 1.",
    ),
]


@pytest.mark.parametrize(("kind", "source", "arguments", "message"), REFUSALS)
def test_refusals(kind: str, source: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LayoutError) as caught:
        build(kind, source, arguments)
    assert f"{caught.value.code}: {caught.value}" == message


def test_uneven_targets_are_refused() -> None:
    with pytest.raises(LayoutError) as caught:
        COLLECTIVES["slice"].step(Layout.parse("[-]"), (4,), MESH, axes=("b",), dim=0)
    assert caught.value.code == "layout.uneven-unsupported"


def test_a_scalar_has_no_dim() -> None:
    with pytest.raises(LayoutError, match="A scalar has no dim to name"):
        COLLECTIVES["slice"].step(Layout(()), (), MESH, axes=("b",), dim=0)
