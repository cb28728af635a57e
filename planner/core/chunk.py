"""Nested ceil-chunks: how the axes on a dim cut its indices among ranks, also where the size does not divide.

Every axis in turn cuts what the axes before it left into chunks of one size, rounded up, of which the last ones may be
shorter or empty, as torch does. Size 10 over an axis of 8 gives 2,2,2,2,2,0,0,0; over 2 and then 4 it gives
2,2,1,0,2,2,1,0. The rank at coordinate 0 of all axes has the largest chunk.
"""

from __future__ import annotations

from collections import Counter

from .mesh import Axes, DeviceMesh


def chunk(size: int, axes: Axes, mesh: DeviceMesh, rank: int) -> tuple[int, int]:
    """Return `start, stop` of the indices that `rank` holds of a dim of global `size`."""
    start, stop = 0, size
    for axis in axes:
        length = -(-(stop - start) // mesh.size(axis))
        start = min(start + mesh.index(rank, (axis,)) * length, stop)
        stop = min(start + length, stop)
    return start, stop


def largest(size: int, axes: Axes, mesh: DeviceMesh) -> int:
    """Return how many indices of a dim of global `size` the rank at coordinate 0 holds: no rank holds more."""
    for axis in axes:
        size = -(-size // mesh.size(axis))
    return size


def lengths(size: int, axes: Axes, mesh: DeviceMesh) -> Counter[int]:
    """Return how many of the positions along `axes` hold a chunk of each length."""
    held = Counter({size: 1})
    for axis in axes:
        count = mesh.size(axis)
        cut: Counter[int] = Counter()
        for extent, times in held.items():
            length = -(-extent // count)
            full, rest = divmod(extent, length) if length else (0, 0)
            for each, of_it in ((length, full), (rest, bool(rest)), (0, count - full - bool(rest))):
                cut[each] += of_it * times
        held = +cut
    return held
