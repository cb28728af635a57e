"""What a direct exchange between two layouts moves: which boxes of a tensor each rank holds, wants and lacks.

A dim is cut axis by axis into nested ceil-chunks (`core.chunk`). An axis has the same *role* in two layouts iff it
shards nothing in both, or is on the same dim and cuts the same chunks there: those before it then make the same
chunks, whoever holds them. A rank's owners of what it needs then include ranks that differ from it only along axes
with another role: these axes are the group, and no message leaves it.

S is a source box, T a target box. Since the axes on a dim cut it into disjoint chunks, every element has the same
number of owners, R_S, and of readers, R_T, also where sizes do not divide:

```text
received(r) = |T(r)| - |T(r) ∩ S(r)|
sent(o)     = (R_T·|S(o)| - sum over owners r of S(o) of |T(r) ∩ S(r)|) / R_S
```

since the readers of a box that own it already need nothing, and the owners share the rest equally.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, reduce
from math import prod

import numpy as np
import numpy.typing as npt

from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh

Array = npt.NDArray[np.int64]
_NEUTRAL = (np.ones((), np.int64),) * 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What the busiest rank of an exchange moves.

    Parameters
    ----------
    received, sent
        Elements; sent ones are a fraction where owners share an odd number.
    pieces
        Boxes that a rank receives from other ranks, or sends to them if these are more. What
        several owners send of one box travels at the same time and counts once.
    """

    received: int
    sent: float
    pieces: int


@lru_cache(maxsize=1 << 12)
def moved_axes(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Axes:
    """Return the axes that have another role in `target` than in `source`, in mesh order."""
    before, after = _roles(source, shape, mesh), _roles(target, shape, mesh)
    return tuple(axis for axis in mesh.names if before.get(axis) != after.get(axis))


@lru_cache(maxsize=1 << 16)
def demand(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Demand:
    """Return what the busiest rank moves, exactly, for layouts with the same partial axes."""
    axes = _varying(source, target, shape, mesh)
    grid = tuple(mesh.size(axis) for axis in axes)
    dims = (_along(*cut, mesh, axes) for cut in zip(shape, source.dims, target.dims, strict=True))
    factors = zip(_NEUTRAL, *dims, strict=True)
    held, wanted, overlap, from_boxes, to_boxes = (reduce(np.multiply, along) for along in factors)
    overlap = np.broadcast_to(overlap, grid)
    kept = overlap > 0
    owners = tuple(i for i, axis in enumerate(axes) if axis not in source.sharded)
    owner_count = prod(grid[i] for i in owners)
    reader_count = prod(n for n, axis in zip(grid, axes, strict=True) if axis not in target.sharded)
    unsent = overlap.sum(axis=owners, keepdims=True)
    to_self = kept.sum(axis=owners, keepdims=True)
    messages = -((to_self - reader_count * to_boxes) // owner_count)
    return Demand(
        received=int((wanted - overlap).max()),
        sent=int((reader_count * held - unsent).max()) / owner_count,
        pieces=int(max((from_boxes - kept).max(), messages.max())),
    )


def near_axes(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Axes:
    """Return the axes that an exchange can't do without: those that move and shard the source."""
    return tuple(axis for axis in moved_axes(source, target, shape, mesh) if axis in source.sharded)


@lru_cache(maxsize=1 << 12)
def near_demand(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Demand:
    """Return what the busiest rank moves where no message leaves the groups over `near_axes`.

    Within such a group every part has one owner, which sends it to all that want it. So what o sends is the sum of
    |T(r) ∩ S(o)| over the other ranks r of its group.
    """
    group = near_axes(source, target, shape, mesh)
    rest = tuple(axis for axis in _varying(source, target, shape, mesh) if axis not in group)
    count = mesh.size_of(group)
    grid = (count, mesh.size_of(rest))
    common: Array = np.ones((count, *grid), np.int64)
    for size, before, after in zip(shape, source.dims, target.dims, strict=True):
        sides = (*bounds(size, before, mesh, group + rest), *bounds(size, after, mesh, group + rest))
        begin, end, start, stop = (_spread(side, group + rest, mesh).reshape(grid) for side in sides)
        # By owner, by reader, by their coordinates on the axes that messages do not leave.
        common *= np.maximum(np.minimum(end[:, None], stop[None]) - np.maximum(begin[:, None], start[None]), 0)
    common[np.arange(count), np.arange(count)] = 0
    moving = common > 0
    return Demand(
        received=int(common.sum(axis=0).max()),
        sent=float(common.sum(axis=1).max()),
        pieces=int(max(moving.sum(axis=0).max(), moving.sum(axis=1).max())),
    )


def _spread(side: Array, axes: Axes, mesh: DeviceMesh) -> Array:
    """Return an array over axes in full, also where an axis makes no difference."""
    return np.broadcast_to(side, tuple(mesh.size(axis) for axis in axes))


def elements(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Array:
    """Return how many elements every rank holds, as an array over the axes of the mesh."""
    held = np.ones((1,) * len(mesh.names), np.int64)
    for size, dim in zip(shape, layout.dims, strict=True):
        begin, end = bounds(size, dim, mesh, mesh.names)
        held = held * (end - begin)
    return held


@lru_cache(maxsize=1 << 14)
def _along(size: int, before: Axes, after: Axes, mesh: DeviceMesh, axes: Axes) -> tuple[Array, ...]:
    """Return a dim's factors of what a rank holds, wants and keeps, and of the boxes on the other side of both."""
    begin, end = bounds(size, before, mesh, axes)
    if before == after:
        present = (end > begin).astype(np.int64)
        return end - begin, end - begin, end - begin, present, present
    start, stop = bounds(size, after, mesh, axes)
    return (
        end - begin,
        stop - start,
        np.maximum(np.minimum(end, stop) - np.maximum(begin, start), 0),
        _touched(start, stop, edges(size, before, mesh)),
        _touched(begin, end, edges(size, after, mesh)),
    )


@lru_cache(maxsize=1 << 12)
def bounds(size: int, dim: Axes, mesh: DeviceMesh, axes: Axes) -> tuple[Array, Array]:
    """Return where the chunk of each rank begins and ends on a dim of global `size`.

    Parameters
    ----------
    dim
        The axes that cut it.
    axes
        Axes of the grid of ranks, a dim of the result each, of length 1 where the axis makes no difference; other
        axes stand at 0.
    """
    begin, end = np.zeros((1,) * len(axes), np.int64), np.full((1,) * len(axes), size, np.int64)
    for axis in dim:
        count = mesh.size(axis)
        length = -(-(end - begin) // count)
        if axis in axes:
            place = [1] * len(axes)
            place[axes.index(axis)] = count
            begin = np.minimum(begin + np.arange(count).reshape(place) * length, end)
        end = np.minimum(begin + length, end)
    begin, end = np.asarray(begin), np.asarray(end)  # numpy gives scalars where the grid has no axis
    begin.flags.writeable = end.flags.writeable = False
    return begin, end


def edges(size: int, dim: Axes, mesh: DeviceMesh) -> Array:
    """Return where the chunks of a dim begin that are not empty, in ascending order."""
    return _edges(size, tuple(mesh.size(axis) for axis in dim if mesh.size(axis) > 1))


@lru_cache(maxsize=1 << 12)
def _edges(size: int, counts: tuple[int, ...]) -> Array:
    if size % prod(counts) == 0:
        return np.arange(0, size, size // prod(counts) or 1)
    mesh = DeviceMesh(tuple((f"axis{i}", count) for i, count in enumerate(counts)))
    begin, end = np.broadcast_arrays(*bounds(size, mesh.names, mesh, mesh.names))
    return np.sort(begin[begin < end])


def _touched(start: Array, stop: Array, edge: Array) -> Array:
    """Return how many of the chunks that begin at `edge` each interval touches."""
    count: Array = np.searchsorted(edge, stop, "left") - np.searchsorted(edge, start, "right") + 1
    return np.where(start < stop, count, 0)


def _varying(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Axes:
    """Return the axes along which ranks differ in what they move: the group, and all that cut a dim unevenly."""
    varying = set(moved_axes(source, target, shape, mesh))
    for size, before, after in zip(shape, source.dims, target.dims, strict=True):
        if size % mesh.size_of(before) or size % mesh.size_of(after):
            varying.update(before, after)
    return tuple(axis for axis in mesh.names if axis in varying)


def _roles(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> dict[str, object]:
    """Return what every axis does: the dim that it cuts, and a key of the chunks that the axes before it made.

    As long as sizes divide, chunks are as many equal parts, however they came about; from there on they depend on how
    the axes follow each other.
    """
    roles: dict[str, object] = {axis: () for axis in layout.partial if mesh.size(axis) > 1}
    for dim, axes in enumerate(layout.dims):
        parts: int = 1
        further: tuple[int, ...] = ()
        for axis in axes:
            count = mesh.size(axis)
            if count > 1:
                roles[axis] = (dim, parts, further)
                if not further and shape[dim] % (parts * count) == 0:
                    parts *= count
                else:
                    further = (*further, count)
    return roles
