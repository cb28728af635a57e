"""An exchange that stays near: who moves what, counted rank by rank, and the values that arrive."""

import random
from collections.abc import Iterator
from math import prod

import numpy as np
import pytest

from planner.collectives import COLLECTIVES
from planner.collectives.boxes import moved_axes, near_axes
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.core.slices import Ranges, ranges
from planner.errors import LayoutError
from tests.properties.strategies import assert_holds, split

EXCHANGE = COLLECTIVES["exchange"]


def samples() -> Iterator[tuple[DeviceMesh, tuple[int, ...], Layout, Layout]]:
    """Yield random redistributions, even and uneven, in which an exchange may stay nearer than all axes that move."""
    rng, found = random.Random(1), 0
    while found < 150:
        mesh = DeviceMesh.of({"a": rng.choice([2, 3]), "b": rng.choice([2, 4]), "c": 2})
        shape = tuple(rng.choice([7, 10, 12, 24]) for _ in range(rng.choice([1, 2])))
        source, target = (_layout(rng, mesh, len(shape)) for _ in range(2))
        if near_axes(source, target, shape, mesh) not in ((), moved_axes(source, target, shape, mesh)):
            found += 1
            yield mesh, shape, source, target


def _layout(rng: random.Random, mesh: DeviceMesh, rank: int) -> Layout:
    dims: list[tuple[str, ...]] = [()] * rank
    for axis in rng.sample(mesh.names, len(mesh.names)):
        dim = rng.randrange(-1, rank)
        if dim >= 0:
            dims[dim] += (axis,)
    return Layout(tuple(dims))


@pytest.mark.parametrize(("mesh", "shape", "source", "target"), list(samples()))
def test_messages_within_the_smaller_group(
    mesh: DeviceMesh, shape: tuple[int, ...], source: Layout, target: Layout
) -> None:
    near = near_axes(source, target, shape, mesh)
    array = np.random.default_rng(0).integers(-9, 9, shape)
    step = EXCHANGE.step(source, shape, mesh, target=target, axes=near)
    assert (step.axes, EXCHANGE.follow(source, step, mesh)) == (near, target)
    world = split(array, source, mesh, np.random.default_rng(1))
    assert_holds(EXCHANGE.run(step, world, mesh), array, target, mesh)
    ranks = range(mesh.device_count)
    have, want = ([ranges(layout, shape, mesh, rank) for rank in ranks] for layout in (source, target))
    moved = {(o, r): _common(have[o], want[r]) for o in ranks for r in mesh.group(near, o) if r != o}
    received, sent = ([sum(n for pair, n in moved.items() if pair[end] == rank) for rank in ranks] for end in (1, 0))
    into, out = ([sum(n > 0 for pair, n in moved.items() if pair[end] == rank) for rank in ranks] for end in (1, 0))
    assert EXCHANGE.received(step, mesh) == max(received)
    assert EXCHANGE.sent(step, mesh) == max(sent)
    assert EXCHANGE.rounds(step, mesh) == max(*into, *out)


def test_no_other_group() -> None:
    mesh = DeviceMesh.of({"a": 2, "b": 2, "c": 2})
    source, target = Layout.parse("[a, -]"), Layout.parse("[b, a]")
    assert EXCHANGE.step(source, (4, 4), mesh, target=target).axes == ("a", "b")
    assert EXCHANGE.step(source, (4, 4), mesh, target=target, axes=("a",)).axes == ("a",)
    for axes in (("b",), ("a", "c"), ("a", "b", "c")):
        with pytest.raises(LayoutError) as caught:
            EXCHANGE.step(source, (4, 4), mesh, target=target, axes=axes)
        assert caught.value.code == "collective.group"


def _common(box: Ranges, other: Ranges) -> int:
    return prod(max(0, min(b, d) - max(a, c)) for (a, b), (c, d) in zip(box, other, strict=True))
