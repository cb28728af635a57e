"""Every ordered pair of layouts on small meshes: planned, run on pretend ranks, compared element by element.

Sums are shared out unevenly, at random, and differ on replicas. `make test` takes a fixed sample, `make test-full` all
of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import permutations, product
from math import prod

import numpy as np
import pytest

from planner.collectives import COLLECTIVES
from planner.collectives.boxes import demand
from planner.core.collective import Redistribution
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.redistribution import Planner, SearchOptions
from planner.simulate import mismatch, run
from tests.redistribution import prices


@dataclass(frozen=True)
class Sweep:
    """All pairs for a tensor of global `shape` on a mesh."""

    mesh: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.mesh.replace(',', ' ')} on {'x'.join(map(str, self.shape))}"


SWEEPS = [
    Sweep(mesh, shape[:rank])
    for mesh, even in (("a:2,b:4", (8, 16, 8)), ("a:2,b:3", (6, 12, 6)), ("a:2,b:2,c:2", (8, 16, 8)))
    for shape in (even, (7, 5, 3))
    for rank in (1, 2, 3)
]


@cache
def layouts(mesh: DeviceMesh, rank: int) -> tuple[Layout, ...]:
    """Return every layout: each axis on a dim, in any order, or partial, or replicated."""
    found = set()
    for places in product(range(-2, rank), repeat=len(mesh.names)):
        for order in permutations(range(len(mesh.names))):
            dims: list[tuple[str, ...]] = [()] * rank
            for i in order:
                if places[i] >= 0:
                    dims[places[i]] += (mesh.names[i],)
            partial = tuple(axis for axis, place in zip(mesh.names, places, strict=True) if place == -2)
            found.add(Layout(tuple(dims), partial))
    return tuple(sorted(found, key=str))


SAMPLED = 270
"""Pairs that a sample has at most."""
STRIDES = (1, 5, 7, 37, 127)
"""Each has no factor in common with the numbers of layouts it is for: a sample has every layout on both sides."""


def sample(sweep: Sweep) -> int:
    """Return the least stride that leaves few enough pairs."""
    count = len(layouts(DeviceMesh.parse(sweep.mesh), len(sweep.shape)))
    return next(stride for stride in STRIDES if count**2 <= SAMPLED * stride)


def pairs(sweep: Sweep, stride: int) -> Iterator[tuple[Layout, Layout]]:
    known = layouts(DeviceMesh.parse(sweep.mesh), len(sweep.shape))
    for number in range(0, len(known) ** 2, stride):
        yield known[number // len(known)], known[number % len(known)]


def hold(moved: Redistribution, mesh: DeviceMesh, *, least: bool) -> None:
    """Run a redistribution and hold it to values, shapes, peak and, if it is to be the least, the bound."""
    source, target, shape = moved.source, moved.target, moved.shape
    array = np.arange(prod(shape)).reshape(shape)
    states = run(moved, mesh)
    for state in states:
        wrong = mismatch(state.world, array, state.layout, mesh)
        assert not wrong, f"{moved}: {wrong} after {state.step}"
    assert states[-1].layout.normal(mesh) == target.normal(mesh)
    assert moved.peak_elements <= source.local_elements(shape, mesh) + target.local_elements(shape, mesh), moved
    if least and not source.partial and not target.partial:
        received = sum(COLLECTIVES[step.kind].received(step, mesh) for step in moved.steps)
        assert received == demand(source, target, shape, mesh).received, moved


@pytest.mark.parametrize("sweep", SWEEPS, ids=str)
def test_a_sample_of_pairs(sweep: Sweep) -> None:
    mesh = DeviceMesh.parse(sweep.mesh)
    planner = Planner(mesh, prices.alpha_beta(mesh))
    sampled = list(pairs(sweep, sample(sweep)))
    known = set(layouts(mesh, len(sweep.shape)))
    assert {source for source, _ in sampled} == {target for _, target in sampled} == known
    for number, (source, target) in enumerate(sampled):
        objective = ("time", "bytes")[number % 2]
        moved = planner.plan(source, target, sweep.shape, SearchOptions(objective=objective))
        hold(moved, mesh, least=objective == "bytes")


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["time", "bytes"])
@pytest.mark.parametrize("sweep", SWEEPS, ids=str)
def test_every_pair(sweep: Sweep, objective: str) -> None:
    mesh = DeviceMesh.parse(sweep.mesh)
    planner = Planner(mesh, prices.alpha_beta(mesh))
    for source, target in pairs(sweep, 1):
        moved = planner.plan(source, target, sweep.shape, SearchOptions(objective=objective))
        hold(moved, mesh, least=objective == "bytes")


def test_every_layout_is_there() -> None:
    """Counts of ordered placements: an axis replicated, partial, or at any place in the order of a dim."""
    for text, rank, count in (("a:2,b:2,c:2", 3, 176), ("a:2,b:2,c:2", 2, 92), ("a:2,b:4", 3, 28), ("a:2,b:3", 1, 10)):
        assert len(layouts(DeviceMesh.parse(text), rank)) == count
