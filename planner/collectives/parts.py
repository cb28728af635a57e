"""Arrays in parts: what the ranks of a group hold of dims that axes cut, joined; and what a rank's part of an array is.

A `Part` is a dim with axes on its minor side. The extents that they cut are local ones, whatever cuts the dim before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core.chunk import chunk
from ..core.collective import Part, Step
from ..core.mesh import DeviceMesh

Array = npt.NDArray[Any]


def taken(step: Step) -> tuple[Part, ...]:
    """Return the dims that the step takes axes from: the one that it names, or several by its layouts."""
    return ((step.dim, step.axes),) if step.dim >= 0 else step.taken


def given(step: Step) -> tuple[Part, ...]:
    """Return the dims that the step gives axes to: the one that it names, or several by its layouts."""
    named = step.to_dim if step.kind == "all_to_all" else step.dim
    return ((named, step.axes),) if named >= 0 else step.given


def join(arrays: Sequence[Array], parts: Sequence[Part], mesh: DeviceMesh) -> Array:
    """Return the whole of which the ranks of a group hold parts.

    Parameters
    ----------
    arrays
        By position along the axes of all parts, those of the first part major.
    """
    if not parts:
        return arrays[0]
    (dim, axes), *rest = parts
    inner = len(arrays) // mesh.size_of(axes)
    blocks = [join(arrays[i : i + inner], rest, mesh) for i in range(0, len(arrays), inner)]
    return np.concatenate(blocks, axis=dim)


def cut(array: Array, parts: Sequence[Part], mesh: DeviceMesh, rank: int) -> Array:
    """Return the part of an array that belongs to `rank`, as a view."""
    index = [slice(None)] * array.ndim
    for dim, axes in parts:
        index[dim] = slice(*chunk(array.shape[dim], axes, mesh, rank))
    return array[tuple(index)]


def in_place(shape: tuple[int, ...], parts: Sequence[Part], mesh: DeviceMesh) -> bool:
    """Return whether the equal parts of a local `shape` lie one after the other in memory, by rank of the group."""
    (dim, axes), *rest = parts
    in_order = axes == tuple(axis for axis in mesh.names if axis in axes)
    return not rest and in_order and all(size == 1 for size in shape[:dim])
