"""Which part of a tensor a rank holds, as index ranges: the slice map of a layout.

Sizes that do not divide are cut into nested ceil-chunks (`core.chunk`).
"""

from __future__ import annotations

from ..errors import LayoutError
from .chunk import chunk
from .layout import Layout
from .mesh import DeviceMesh

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
    return tuple(chunk(size, axes, mesh, rank) for size, axes in zip(shape, layout.dims, strict=True))
