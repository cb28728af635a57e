"""Which part of a tensor a rank holds, as index ranges: the slice map of a layout.

Sizes that do not divide are cut into nested ceil-chunks, as torch does: every axis in turn cuts what the axes before
it left into chunks of the same size, rounded up, of which the last ones may be shorter or empty.
"""

from __future__ import annotations

from ..errors import LayoutError
from .layout import Layout
from .mesh import Axes, DeviceMesh

Ranges = tuple[tuple[int, int], ...]
"""`start, stop` of every dim."""


def ranges(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh, rank: int) -> Ranges:
    """Return the part that `rank` holds of a tensor of global `shape`.

    Raises
    ------
    LayoutError
        `layout.rank-mismatch`, `mesh.axis-unknown`.
    """
    if len(shape) != len(layout.dims):
        raise LayoutError(
            "layout.rank-mismatch",
            f"Layout {layout} has {len(layout.dims)} dims, the tensor has {len(shape)} (shape {shape}).",
            "Give one entry a dim.",
        )
    return tuple(_chunk(size, axes, mesh, rank) for size, axes in zip(shape, layout.dims, strict=True))


def _chunk(size: int, axes: Axes, mesh: DeviceMesh, rank: int) -> tuple[int, int]:
    start, stop = 0, size
    for axis in axes:
        chunk = -(-(stop - start) // mesh.size(axis))
        start = min(start + mesh.index(rank, (axis,)) * chunk, stop)
        stop = min(start + chunk, stop)
    return start, stop
