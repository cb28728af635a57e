"""Random meshes, shapes and layouts, and the arrays that ranks hold of a tensor."""

from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from planner.collectives import World
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.simulate import scatter

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A tensor on a mesh with two layouts, which divide it unless it is uneven; `seed` makes its values."""

    mesh: DeviceMesh
    shape: tuple[int, ...]
    source: Layout
    target: Layout
    seed: int

    def array(self) -> Array:
        return np.random.default_rng(self.seed).integers(-1000, 1000, self.shape)


@st.composite
def meshes(draw: st.DrawFn, max_axes: int = 3, max_size: int = 4) -> DeviceMesh:
    sizes = draw(st.lists(st.integers(1, max_size), min_size=1, max_size=max_axes))
    return DeviceMesh.of(dict(zip("abcdefgh", sizes, strict=False)))


@st.composite
def layouts(
    draw: st.DrawFn, mesh: DeviceMesh, rank: int, *, partial: bool = True, reduces: tuple[str, ...] = ("sum",)
) -> Layout:
    """Any legal layout: every axis shards one of the dims, is partial, or is replicated."""
    dims: list[tuple[str, ...]] = [()] * rank
    partials: tuple[str, ...] = ()
    for axis in draw(st.permutations(mesh.names)):
        place = draw(st.integers(-2 if partial else -1, rank - 1))
        if place >= 0:
            dims[place] += (axis,)
        elif place == -2:
            partials += (axis,)
    return Layout(tuple(dims), partials, draw(st.sampled_from(reduces)) if partials else "sum")


@st.composite
def cases(
    draw: st.DrawFn,
    *,
    partial: bool = True,
    max_axes: int = 3,
    max_size: int = 4,
    max_rank: int = 3,
    reduces: tuple[str, ...] = ("sum",),
    even: bool = True,
) -> Case:
    mesh = draw(meshes(max_axes, max_size))
    rank = draw(st.integers(0 if partial else 1, max_rank))
    source = draw(layouts(mesh, rank, partial=partial, reduces=reduces))
    target = draw(layouts(mesh, rank, partial=partial and source.reduce == "sum"))
    shape = tuple(
        lcm(mesh.size_of(a), mesh.size_of(b)) * draw(st.integers(1, 2)) if even else draw(st.integers(1, 14))
        for a, b in zip(source.dims, target.dims, strict=True)
    )
    return Case(mesh, shape, source, target, draw(st.integers(0, 2**16)))


def shard(array: Array, layout: Layout, mesh: DeviceMesh, rank: int) -> Array:
    """Return the part that `rank` holds, by cutting every dim axis after axis into chunks of a size, rounded up."""
    coordinates = mesh.coordinates(rank)
    for dim, axes in enumerate(layout.dims):
        for axis in axes:
            length = -(-array.shape[dim] // mesh.size(axis))
            begin = coordinates[axis] * length
            array = array[(slice(None),) * dim + (slice(begin, begin + length),)]
    return array


def split(array: Array, layout: Layout, mesh: DeviceMesh, rng: np.random.Generator) -> World:
    """Return what every rank holds; partial values are shared out unevenly and at random."""
    return scatter(array, layout, mesh, rng)


def pieces(array: Array, layout: Layout, mesh: DeviceMesh, rng: np.random.Generator) -> World:
    """Return what every rank holds; partial sums are shared out at random, alike on ranks that replicate them."""
    noise = [rng.standard_normal(array.shape) for _ in range(mesh.size_of(layout.partial) - 1)]
    shares = [*noise, array - sum(noise)] if noise else [array]
    return [shard(shares[mesh.index(rank, layout.partial)], layout, mesh, rank) for rank in range(mesh.device_count)]


def assert_holds(world: World, array: Array, layout: Layout, mesh: DeviceMesh) -> None:
    """Check, on every rank, that its array is the layout's part of the tensor."""
    reduce = {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum}[layout.reduce]
    summands = mesh.size_of(layout.partial) if layout.reduce == "mean" else 1
    for rank, held in enumerate(world):
        expected = shard(array, layout, mesh, rank)
        assert held.shape == expected.shape, f"rank {rank}"
        total = reduce.reduce([world[member] for member in mesh.group(layout.partial, rank)])
        np.testing.assert_array_equal(total, summands * expected, err_msg=f"rank {rank}")
