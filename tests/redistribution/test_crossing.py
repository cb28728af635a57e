"""Crossings: between two meshes over the same ranks, and through reshapes, run on pretend ranks."""

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice, product

import numpy as np
import pytest

from planner.collectives.handover import leg_received
from planner.core.collective import Redistribution
from planner.core.crossing import Crossing, Holding
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.redistribution import Planner, SearchOptions, plan_crossing
from planner.simulate import mismatch, run_crossing
from tests.collectives.elements import bound
from tests.redistribution import prices

Case = tuple[Holding, Holding]
THREE_EIGHT, EIGHT_THREE = DeviceMesh.parse("a:3,b:8"), DeviceMesh.parse("c:8,d:3")
EVEN = ((24,), (24, 48), (24, 24, 24))
UNEVEN = ((10,), (5, 7), (2, 9, 4), (1, 3, 1))


@lru_cache(maxsize=1 << 14)
def by_bytes(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Redistribution:
    """Plan for the least bytes."""
    return planner(mesh).plan(source, target, shape, SearchOptions(objective="bytes"))


@lru_cache(maxsize=64)
def planner(mesh: DeviceMesh) -> Planner:
    return Planner(mesh, prices.alpha_beta(mesh))


def crossed(source: Holding, target: Holding) -> Crossing:
    return plan_crossing(source, target, by_bytes, lambda way: (sum(map(leg_received, way.legs)),))


def assert_right(source: Holding, target: Holding) -> Crossing:
    """Run a crossing on whole numbers, and compare what it receives with the elements that ranks lack."""
    crossing = crossed(source, target)
    array = np.random.default_rng(0).integers(-1000, 1000, source.shape)
    end = run_crossing(crossing, array, seed=1)[-1]
    assert end.holding == target
    found = mismatch(end.world, array.reshape(target.shape), target.layout, target.mesh)
    assert found == "", crossing
    if not source.layout.partial and not target.layout.partial:
        assert sum(map(leg_received, crossing.legs)) == bound(source, target), crossing
    return crossing


def every_layout(mesh: DeviceMesh, rank: int, *, partial: bool) -> list[Layout]:
    """Return every layout of a tensor of `rank` dims, with every order of the axes on a dim."""
    found = {Layout(((),) * rank)}
    for axis in mesh.names:
        grown = set(found)
        for layout in found:
            for dim, axes in enumerate(layout.dims):
                grown |= {layout.with_dim(dim, (*axes[:at], axis, *axes[at:])) for at in range(len(axes) + 1)}
            if partial:
                grown.add(layout.with_partial((*layout.partial, axis)))
        found = grown
    return sorted(found, key=str)


def two_meshes() -> Iterator[Case]:
    """Yield every ordered pair of layouts of 3×8 and 8×3 ranks, either way."""
    for (one, two), shape in product(((THREE_EIGHT, EIGHT_THREE), (EIGHT_THREE, THREE_EIGHT)), (*EVEN, *UNEVEN)):
        rooms = (every_layout(mesh, len(shape), partial=True) for mesh in (one, two))
        for before, after in product(*rooms):
            yield Holding(mesh=one, shape=shape, layout=before), Holding(mesh=two, shape=shape, layout=after)


def test_all_layouts_are_tried() -> None:
    assert len(every_layout(THREE_EIGHT, 3, partial=False)) == 19
    assert len(every_layout(THREE_EIGHT, 3, partial=True)) == 28
    assert len(list(two_meshes())) > 4000


@pytest.mark.parametrize("seed", range(4))
def test_a_tenth_of_two_meshes_without_refinement(seed: int) -> None:
    cases = sorted(two_meshes(), key=str)
    chosen = random.Random(0).sample(range(len(cases)), len(cases) // 10)
    for position in chosen[seed::4]:
        assert_right(*cases[position])


@pytest.mark.slow
def test_two_meshes_without_refinement() -> None:
    for case in two_meshes():
        assert_right(*case)


def test_without_the_exchange_what_does_not_meet_is_gathered_whole() -> None:
    array = np.arange(35).reshape(5, 7)
    pairs = product(every_layout(THREE_EIGHT, 2, partial=True), every_layout(EIGHT_THREE, 2, partial=True))
    for before, after in islice(pairs, 0, None, 8):
        source = Holding(mesh=THREE_EIGHT, shape=(5, 7), layout=before)
        target = Holding(mesh=EIGHT_THREE, shape=(5, 7), layout=after)
        crossing = plan_crossing(source, target, by_bytes, lambda _: (), exchange=False)
        assert not {"handover", "exchange"} & {leg.kind for leg in crossing.legs}
        assert mismatch(run_crossing(crossing, array)[-1].world, array, after, EIGHT_THREE) == ""


GRIDS = [DeviceMesh.of(dict(zip(names, sizes, strict=True))) for names, sizes in
         (("a", (8,)), ("bc", (2, 4)), ("de", (4, 2)), ("fgh", (2, 2, 2)))]  # fmt: skip


def related_meshes() -> Iterator[Case]:
    """Yield pairs of layouts on meshes that have a common refinement."""
    for one, two, shape in product(GRIDS, GRIDS, ((8,), (8, 16), (7,), (3, 10))):
        for before, after in product(*(every_layout(mesh, len(shape), partial=True) for mesh in (one, two))):
            source, target = (
                Holding(mesh=mesh, shape=shape, layout=layout) for mesh, layout in ((one, before), (two, after))
            )
            if one != two:
                yield source, target


def test_a_sample_of_related_meshes() -> None:
    cases = sorted(related_meshes(), key=str)
    for position in random.Random(1).sample(range(len(cases)), 150):
        source, target = cases[position]
        crossing = assert_right(source, target)
        if all(end.layout.even(end.shape, end.mesh) for end in (source, target)):
            assert all(leg.kind != "handover" for leg in crossing.legs)


@pytest.mark.slow
def test_related_meshes() -> None:
    for case in related_meshes():
        assert_right(*case)


RESHAPES = [
    ((8, 4), (32,)), ((32,), (4, 8)), ((2, 8, 4), (16, 4)), ((2, 16, 4), (32, 4)), ((4, 8), (8, 4)),
    ((4, 3), (3, 4)), ((4, 6), (6, 4)), ((16, 3), (48,)), ((8, 8), (4, 16)), ((8, 1, 4), (4, 8)),
    ((6, 8), (3, 2, 8)), ((4, 4, 4), (8, 8)), ((8, 6, 4), (6, 32)), ((3, 8), (24,)), ((7, 8), (56,)),
    ((16, 16), (8, 2, 4, 4)), ((1, 1), (1,)), ((24,), (2, 3, 4)),
]  # fmt: skip
MESHES = [DeviceMesh.parse(text) for text in ("a:2", "a:4", "a:8", "a:3", "a:2,b:2", "a:2,b:4", "a:2,b:3")]


def reshapes(*, even: bool) -> Iterator[Case]:
    """Yield pairs of layouts of tensors before and after a reshape, on one mesh."""
    for mesh, (one, two), turned in product(MESHES, RESHAPES, (False, True)):
        shapes = (two, one) if turned else (one, two)
        for before, after in product(*(every_layout(mesh, len(shape), partial=False) for shape in shapes)):
            source, target = (
                Holding(mesh=mesh, shape=shape, layout=layout)
                for shape, layout in zip(shapes, (before, after), strict=True)
            )
            if even == all(end.layout.even(end.shape, mesh) for end in (source, target)):
                yield source, target


@pytest.mark.parametrize("even", [True, False])
def test_a_sample_of_reshapes(even: bool) -> None:
    cases = sorted(reshapes(even=even), key=str)
    assert len(cases) > 2000
    for position in random.Random(2).sample(range(len(cases)), 200):
        assert_right(*cases[position])


@pytest.mark.slow
@pytest.mark.parametrize("even", [True, False])
def test_reshapes(even: bool) -> None:
    for case in reshapes(even=even):
        assert_right(*case)
