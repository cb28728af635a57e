"""Every collective: its layouts, its refusals, its bytes by counted messages, its transpose."""

from typing import Any

import numpy as np
import pytest

from planner.collectives import COLLECTIVES
from planner.collectives.checks import axes_of
from planner.core.collective import Step
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from tests.collectives import wire
from tests.properties.strategies import assert_holds, split

MESH = DeviceMesh.of({"a": 2, "b": 3, "c": 2})
SHAPE = (24, 12)
UNEVEN = (7, 5)

# kind | source | arguments | target
ROWS: list[tuple[str, str, dict[str, Any], str]] = [
    ("all_gather", "[a, -]", {"axes": ("a",), "dim": 0}, "[-, -]"),
    ("all_gather", "[c·a·b, -]", {"axes": ("a", "b"), "dim": 0}, "[c, -]"),
    ("all_gather", "[-, b·c] +a", {"axes": ("b", "c"), "dim": 1}, "[-, -] +a"),
    ("all_gather", "[c·a, b]", {"target": Layout.parse("[c, -]")}, "[c, -]"),
    ("all_gather", "[b, a] +c", {"target": Layout.parse("[-, -] +c")}, "[-, -] +c"),
    ("all_reduce", "[-, -] +b", {"axes": ("b",)}, "[-, -]"),
    ("all_reduce", "[c, -] +a·b", {"axes": ("a", "b")}, "[c, -]"),
    ("all_reduce", "[c, -] +a·b", {"axes": ("a",)}, "[c, -] +b"),
    ("all_reduce", "[-, -] max(a·b)", {"axes": ("a", "b")}, "[-, -]"),
    ("all_reduce", "[-, -] min(a·b)", {"axes": ("b",)}, "[-, -] min(a)"),
    ("all_reduce", "[-, c] mean(a·b)", {"axes": ("b",)}, "[-, c] mean(a)"),
    ("all_to_all", "[b, -]", {"axes": ("b",), "dim": 0, "to_dim": 1}, "[-, b]"),
    ("all_to_all", "[c·b·a, -]", {"axes": ("b", "a"), "dim": 0, "to_dim": 1}, "[c, b·a]"),
    ("all_to_all", "[b, c] +a", {"axes": ("b",), "dim": 0, "to_dim": 1}, "[-, c·b] +a"),
    ("all_to_all", "[a·b, -]", {"target": Layout.parse("[-, b·a]")}, "[-, b·a]"),
    ("exchange", "[a·b, -]", {"target": Layout.parse("[b·a, -]")}, "[b·a, -]"),
    ("exchange", "[a, b]", {"target": Layout.parse("[b, c]")}, "[b, c]"),
    ("exchange", "[a·b·c, -]", {"target": Layout.parse("[b·a·c, -]")}, "[b·a·c, -]"),
    ("exchange", "[a, -]", {"target": Layout.parse("[b, -]")}, "[b, -]"),
    ("exchange", "[a, -] +c", {"target": Layout.parse("[-, b] +c")}, "[-, b] +c"),
    ("exchange", "[a, c]", {"target": Layout.parse("[-, -]")}, "[-, -]"),
    ("pad", "[b, -]", {"axes": ("b",), "dim": 0}, "[-, -] +b"),
    ("pad", "[-, c·a·b]", {"axes": ("a", "b"), "dim": 1}, "[-, c] +a·b"),
    ("permute", "[a, c]", {"target": Layout.parse("[c, a]")}, "[c, a]"),
    ("permute", "[a·c, b]", {"target": Layout.parse("[c·a, b]")}, "[c·a, b]"),
    ("permute", "[b·a, -]", {"target": Layout.parse("[b·c, -]")}, "[b·c, -]"),
    ("permute", "[a, -] +b", {"target": Layout.parse("[c, -] +b")}, "[c, -] +b"),
    ("reduce_scatter", "[-, -] +b", {"axes": ("b",), "dim": 1}, "[-, b]"),
    ("reduce_scatter", "[-, -] mean(b)", {"axes": ("b",), "dim": 1}, "[-, b]"),
    ("reduce_scatter", "[a, -] max(b·c)", {"axes": ("b",), "dim": 0}, "[a·b, -] max(c)"),
    ("reduce_scatter", "[c, -] +a·b", {"target": Layout.parse("[c·b, a]")}, "[c·b, a]"),
    ("reduce_scatter", "[c, -] +a·b", {"axes": ("b", "a"), "dim": 0}, "[c·b·a, -]"),
    ("reduce_scatter", "[-, -] +a·b", {"axes": ("a",), "dim": 0}, "[a, -] +b"),
    ("slice", "[-, -]", {"axes": ("b",), "dim": 0}, "[b, -]"),
    ("slice", "[c, -] +a", {"axes": ("b",), "dim": 0}, "[c·b, -] +a"),
    ("slice", "[-, -]", {"axes": ("c", "a"), "dim": 1}, "[-, c·a]"),
    ("sum_exchange", "[c, -] +b", {"target": Layout.parse("[b, c]")}, "[b, c]"),
    ("sum_exchange", "[c·a, -] +b", {"target": Layout.parse("[b·c, a]")}, "[b·c, a]"),
    ("sum_exchange", "[-, -] +a·b", {"target": Layout.parse("[c·b, -] +a")}, "[c·b, -] +a"),
    ("sum_exchange", "[a·b·c, -]", {"target": Layout.parse("[c, -] +a")}, "[c, -] +a"),
    ("sum_exchange", "[-, a]", {"target": Layout.parse("[a, -] +b")}, "[a, -] +b"),
    ("sum_exchange", "[b, -] +a", {"target": Layout.parse("[-, a] +b·c")}, "[-, a] +b·c"),
    ("zero", "[a, -]", {"axes": ("b",)}, "[a, -] +b"),
    ("zero", "[-, -] +c", {"axes": ("a", "b")}, "[-, -] +a·b·c"),
]
IDS = [f"{kind} {source} to {target}" for kind, source, _, target in ROWS]
SHAPES = pytest.mark.parametrize("shape", [SHAPE, UNEVEN], ids=["even", "uneven"])


def build(kind: str, source: str, arguments: dict[str, Any], shape: tuple[int, ...] = SHAPE) -> Step:
    return COLLECTIVES[kind].step(Layout.parse(source), shape, MESH, **arguments)


def test_the_table_is_sorted_and_named_alike() -> None:
    assert list(COLLECTIVES) == sorted(COLLECTIVES)
    assert all(name == entry.name for name, entry in COLLECTIVES.items())
    assert all(entry.summary and entry.dual in COLLECTIVES for entry in COLLECTIVES.values())


def test_every_collective_has_a_row() -> None:
    assert {row[0] for row in ROWS} == set(COLLECTIVES)


@SHAPES
@pytest.mark.parametrize(("kind", "source", "arguments", "target"), ROWS, ids=IDS)
def test_layout_and_shapes(
    kind: str, source: str, arguments: dict[str, Any], target: str, shape: tuple[int, ...]
) -> None:
    step = build(kind, source, arguments, shape)
    assert str(step.target) == target
    assert step.source_shape == Layout.parse(source).local_shape(shape, MESH)
    assert step.target_shape == Layout.parse(target).local_shape(shape, MESH)
    assert step.group_size == MESH.size_of(step.axes)
    assert COLLECTIVES[kind].follow(step.source, step, MESH) == step.target


@SHAPES
@pytest.mark.parametrize(("kind", "source", "arguments", "target"), ROWS, ids=IDS)
def test_ranks_hold_the_target(
    kind: str, source: str, arguments: dict[str, Any], target: str, shape: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(1)
    array = rng.integers(-1000, 1000, shape)
    world = split(array, Layout.parse(source), MESH, rng)
    before = [held.copy() for held in world]
    after = COLLECTIVES[kind].run(build(kind, source, arguments, shape), world, MESH)
    assert_holds(after, array, Layout.parse(target), MESH)
    for held, kept in zip(world, before, strict=True):
        np.testing.assert_array_equal(held, kept, err_msg="the input was changed")


@SHAPES
@pytest.mark.parametrize(("kind", "source", "arguments", "target"), ROWS, ids=IDS)
def test_counted_messages(
    kind: str, source: str, arguments: dict[str, Any], target: str, shape: tuple[int, ...]
) -> None:
    definition = COLLECTIVES[kind]
    step = build(kind, source, arguments, shape)
    if definition.local:
        assert (definition.received(step, MESH), definition.sent(step, MESH)) == (0, 0)
        assert definition.rounds(step, MESH) == 0
        return
    if step.source.reduce != "sum":
        pytest.skip("the wire adds")
    rng = np.random.default_rng(2)
    world = split(rng.integers(-1000, 1000, shape), step.source, MESH, rng)
    counted = wire.Wire(MESH.device_count)
    after = wire.run(step, world, MESH, counted)
    for held, expected in zip(after, definition.run(step, world, MESH), strict=True):
        np.testing.assert_array_equal(held, expected)
    # A ring over parts of an all-reduce that do not divide passes on an element more or less a round.
    uneven = 2 * step.group_size if kind == "all_reduce" and step.source_elements % step.group_size else 0
    assert max(counted.received) == pytest.approx(definition.received(step, MESH), abs=uneven)
    # Where owners can't cut a piece evenly, one of them sends an element more of it.
    odd = max(counted.messages) if kind in ("exchange", "sum_exchange") else uneven
    assert max(counted.sent) == pytest.approx(definition.sent(step, MESH), abs=odd)
    assert definition.received_bytes(step, MESH, 2) == 2 * definition.received(step, MESH)


@SHAPES
@pytest.mark.parametrize(("kind", "source", "arguments", "target"), ROWS, ids=IDS)
def test_dual_is_the_transpose(
    kind: str, source: str, arguments: dict[str, Any], target: str, shape: tuple[int, ...]
) -> None:
    """<y, A x> = <dual(A) y, x> over all ranks."""
    step = build(kind, source, arguments, shape)
    definition = COLLECTIVES[kind]
    if step.source.reduce != "sum":
        pytest.skip("only sums are linear")
    if kind == "exchange" and step.source.sharded != set(MESH.names):
        pytest.skip("the transpose of an exchange adds where replicas are, so it is none")
    if kind == "sum_exchange" and step.target.sharded != set(MESH.names):
        pytest.skip("a sum-exchange adds what replicas hold, and chooses among them where it makes sums")
    back = transposed(step)
    rng = np.random.default_rng(3)
    x = [rng.integers(-9, 9, step.source.shape_of(shape, MESH, rank)) for rank in range(MESH.device_count)]
    y = [rng.integers(-9, 9, step.target.shape_of(shape, MESH, rank)) for rank in range(MESH.device_count)]
    forward = definition.run(step, x, MESH)
    backward = COLLECTIVES[definition.dual].run(back, y, MESH)
    assert dot(y, forward) == dot(backward, x)


def transposed(step: Step) -> Step:
    """Return the dual step: `run` needs kind, axes, dims and shapes, whatever the layouts are called."""
    dim, to_dim = (step.dim, -1) if step.kind != "all_to_all" else (step.to_dim, step.dim)
    return Step(
        kind=COLLECTIVES[step.kind].dual,
        axes=axes_of(step.given) if step.kind == "all_to_all" and dim < 0 else step.axes,
        dim=dim,
        to_dim=to_dim,
        source=Layout(step.target.dims) if step.kind == "sum_exchange" else step.target,
        target=Layout(step.source.dims) if step.kind == "sum_exchange" else step.source,
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
        "all_gather",
        "[a, b]",
        {"target": Layout.parse("[-, b]")},
        "collective.one-dim: all_gather from [a, b] to [-, b] takes a on one dim only. "
        "Name dim 0 and a instead of the target.",
    ),
    (
        "all_gather",
        "[a·c, b]",
        {"target": Layout.parse("[c, -]")},
        "collective.dims: all_gather can't lead from [a·c, b] to [c, -]: dim 0 changes otherwise than on its minor "
        "side. Name a target that it leads to, or use an exchange.",
    ),
    (
        "all_gather",
        "[a, b] +c",
        {"target": Layout.parse("[-, -]")},
        "collective.partial-changed: all_gather from [a, b] +c to [-, -] can't reduce or make partial results. "
        "Reduce them before it, or make them after it.",
    ),
    (
        "reduce_scatter",
        "[-, -] +a",
        {"target": Layout.parse("[a, b]")},
        "collective.not-partial: reduce_scatter over a·b on [-, -] +a: it is not partial over b. "
        "Name some of the partial axes: a.",
    ),
    (
        "reduce_scatter",
        "[-, -] +a·b·c",
        {"target": Layout.parse("[a, b]")},
        "collective.partial-changed: reduce_scatter from [-, -] +a·b·c to [a, b] leaves results over c partial. "
        "Name a target with sum(c).",
    ),
    (
        "all_to_all",
        "[a·b, -]",
        {"target": Layout.parse("[-, a]")},
        "collective.axes-kept: all_to_all from [a·b, -] to [-, a]: dims lose a·b and gain a. "
        "Give all axes that are taken to other dims.",
    ),
    (
        "all_to_all",
        "[a, -]",
        {"target": Layout.parse("[-, a]")},
        "collective.one-dim: all_to_all from [a, -] to [-, a] takes a on one dim only. "
        "Name dim 0 and a instead of the target.",
    ),
    (
        "permute",
        "[a, -]",
        {"target": Layout.parse("[-, a]")},
        "collective.not-a-permutation: permute from [a, -] to [-, a] on a tensor of shape (24, 12): they cut it into "
        "other boxes, or hold them on another number of ranks. Use an exchange.",
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
    (
        "sum_exchange",
        "[a, -] +b",
        {"target": Layout.parse("[-, a] +b")},
        "collective.partial-kept: sum_exchange from [a, -] +b to [-, a] +b neither finishes sums nor makes any. "
        "Use an exchange.",
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


def test_a_scalar_has_no_dim() -> None:
    with pytest.raises(LayoutError, match="A scalar has no dim to name"):
        COLLECTIVES["slice"].step(Layout(()), (), MESH, axes=("b",), dim=0)
