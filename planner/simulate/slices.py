"""The parts of a tensor that ranks hold: as index ranges, and as arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..collectives import World
from ..collectives.reduction import reduced
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.slices import Ranges, ranges

Array = npt.NDArray[Any]
MAX_RANKS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceMap:
    """The parts that the first ranks hold.

    Parameters
    ----------
    slices
        Per rank from 0, `start, stop` of every dim.
    device_count
        Ranks in all.
    note
        What is left out; empty if nothing is.
    """

    layout: Layout
    slices: tuple[Ranges, ...]
    device_count: int
    note: str


def slices(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> tuple[Ranges, ...]:
    """Return, for every rank, `start, stop` of every dim; sizes that do not divide are cut into nested ceil-chunks.

    Raises
    ------
    LayoutError
        `layout.rank-mismatch`, `mesh.axis-unknown`.
    """
    return tuple(ranges(layout, shape, mesh, rank) for rank in range(mesh.device_count))


def slice_map(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh, limit: int = MAX_RANKS) -> SliceMap:
    """Return the parts of at most `limit` ranks, the first ones."""
    count = min(limit, mesh.device_count)
    return SliceMap(
        layout=layout,
        slices=tuple(ranges(layout, shape, mesh, rank) for rank in range(count)),
        device_count=mesh.device_count,
        note="" if count == mesh.device_count else f"the first {count} of {mesh.device_count:,} ranks",
    )


def scatter(array: Array, layout: Layout, mesh: DeviceMesh, rng: np.random.Generator) -> World:
    """Return what every rank holds of an array of whole numbers; partial values are shared out unevenly, at random.

    Replicas along other axes get shares of their own: a step that mixed them up would be found out.
    """
    world = [array[_index(part)].copy() for part in slices(layout, array.shape, mesh)]
    for rank in range(mesh.device_count):
        if not layout.partial or mesh.index(rank, layout.partial):
            continue
        group = mesh.group(layout.partial, rank)
        for member, share in zip(group, _shares(world[rank], layout.reduce, len(group), rng), strict=True):
            world[member] = share
    return world


def mismatch(world: World, array: Array, layout: Layout, mesh: DeviceMesh) -> str:
    """Return what is wrong with the first rank whose array, reduced, is not its part; empty if all are right."""
    for rank, part in enumerate(slices(layout, array.shape, mesh)):
        expected = array[_index(part)]
        if world[rank].shape != expected.shape:
            return f"rank {rank} holds the shape {world[rank].shape}, not {expected.shape}"
        total = reduced([world[member] for member in mesh.group(layout.partial, rank)], layout.reduce)
        if not np.array_equal(total, expected):
            return f"rank {rank} holds other values than its part {part}"
    return ""


def assemble(world: World, layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Array:
    """Return the whole array from what the ranks hold; where several hold the same part, the last one's."""
    whole = np.zeros(shape, world[0].dtype)
    for rank, part in enumerate(slices(layout, shape, mesh)):
        whole[_index(part)] = reduced([world[member] for member in mesh.group(layout.partial, rank)], layout.reduce)
    return whole


def _shares(whole: Array, reduce: str, count: int, rng: np.random.Generator) -> list[Array]:
    if reduce in ("sum", "mean"):
        noise = [rng.integers(-1000, 1000, whole.shape) for _ in range(count - 1)]
        # Shares of a mean are multiples of their number, so that the means of some of them are whole numbers too.
        return [(1 if reduce == "sum" else count) * share for share in [*noise, whole - sum(noise)]]
    away = 1 if reduce == "min" else -1
    holder = rng.integers(0, count, whole.shape)
    return [np.where(holder == i, whole, whole + away * rng.integers(1, 1000, whole.shape)) for i in range(count)]


def _index(part: Ranges) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in part)
