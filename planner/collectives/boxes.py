"""Which box of a tensor each rank holds, and what a direct exchange between two layouts moves.

On a dim of size N, an axis of size n with product p of the sizes before it chooses a *digit*: it
moves the box in strides of N/(p·n). So an axis has the same *role* in two layouts iff it is on the
same dim with the same p, or shards nothing in both. A rank's owners of what it needs then include
ranks that differ from it only along axes with another role: these axes are the group, and nothing
below looks at more ranks than that.

Within a group, S is a source box, T a target box, and every element has R_S owners and R_T readers:

```text
received(r) = |T| - |T(r) ∩ S(r)|
sent(o)     = (R_T·|S| - sum over owners r of S(o) of |T(r) ∩ S(r)|) / R_S
```

since the readers of a box that own it already need nothing, and the owners share the rest equally.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt

from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh

Array = npt.NDArray[np.int64]
Box = tuple[tuple[int, int], ...]


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One message of an exchange, between positions in its group.

    Parameters
    ----------
    source, target
        The box that it is cut from, in local indices of the sender and of the receiver.
    start, stop
        The part of that box that is sent, as a range of its elements in row-major order.
    """

    sender: int
    receiver: int
    source: Box
    target: Box
    start: int
    stop: int


def moved_axes(source: Layout, target: Layout, mesh: DeviceMesh) -> Axes:
    """Return the axes that have another role in `target` than in `source`, in mesh order."""
    before, after = _roles(source, mesh), _roles(target, mesh)
    return tuple(axis for axis in mesh.names if before.get(axis) != after.get(axis))


@lru_cache(maxsize=1 << 16)
def demand(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Demand:
    """Return what the busiest rank moves, exactly; both layouts must divide the shape evenly."""
    axes = moved_axes(source, target, mesh)
    grid = tuple(mesh.size(axis) for axis in axes)
    shares, holds = source.local_shape(shape, mesh), target.local_shape(shape, mesh)
    overlap, from_boxes, to_boxes = (np.ones((1,) * len(axes), np.int64) for _ in range(3))
    for dim, (held, wanted) in enumerate(zip(shares, holds, strict=True)):
        if source.dims[dim] == target.dims[dim]:
            overlap = overlap * held
            continue
        begin = _starts(source.dims[dim], shape[dim], mesh, axes)
        start = _starts(target.dims[dim], shape[dim], mesh, axes)
        common = np.minimum(begin + held, start + wanted) - np.maximum(begin, start)
        overlap = overlap * np.maximum(common, 0)
        from_boxes = from_boxes * _touched(start, wanted, held)
        to_boxes = to_boxes * _touched(begin, held, wanted)
    overlap = np.broadcast_to(overlap, grid)
    kept = overlap > 0
    owners = tuple(i for i, axis in enumerate(axes) if axis not in source.sharded)
    owner_count = prod(grid[i] for i in owners)
    reader_count = prod(n for n, axis in zip(grid, axes, strict=True) if axis not in target.sharded)
    unsent = overlap.sum(axis=owners, keepdims=True)
    to_self = kept.sum(axis=owners, keepdims=True)
    messages = -((to_self - reader_count * to_boxes) // owner_count)
    return Demand(
        received=prod(holds) - int(overlap.min()),
        sent=(reader_count * prod(shares) - int(unsent.min())) / owner_count,
        pieces=int(max((from_boxes - kept).max(), messages.max())),
    )


def transfers(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> tuple[Transfer, ...]:
    """Return the messages of one group; they are the same in each.

    The demand for the part of a box that some ranks want is laid on a line, reader after reader,
    and cut into equal lengths, one for each owner.
    """
    axes = moved_axes(source, target, mesh)
    held = _readers(source, shape, mesh, axes)
    wanted = _readers(target, shape, mesh, axes)
    messages: list[Transfer] = []
    for (box, owners), (want, readers) in product(held.items(), wanted.items()):
        piece = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, want, strict=True))
        size = prod(max(stop - start, 0) for start, stop in piece)
        needy = [rank for rank in readers if rank not in owners]
        for i, owner in enumerate(owners):
            begin = i * size * len(needy) // len(owners)
            end = (i + 1) * size * len(needy) // len(owners)
            while begin < end:
                reader, offset = divmod(begin, size)
                stop = min(size, offset + end - begin)
                messages.append(
                    Transfer(
                        sender=owner,
                        receiver=needy[reader],
                        source=_relative(piece, box),
                        target=_relative(piece, want),
                        start=offset,
                        stop=stop,
                    )
                )
                begin += stop - offset
    return tuple(messages)


def kept_box(
    source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh, position: int
) -> tuple[Box, Box] | None:
    """Return the box that a rank keeps, in local indices before and after; None if there is none."""
    axes = moved_axes(source, target, mesh)
    box, want = (_box(layout, shape, mesh, axes, position) for layout in (source, target))
    piece = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, want, strict=True))
    if any(start >= stop for start, stop in piece):
        return None
    return _relative(piece, box), _relative(piece, want)


def _roles(layout: Layout, mesh: DeviceMesh) -> dict[str, tuple[int, int]]:
    roles = {axis: (-1, 0) for axis in layout.partial if mesh.size(axis) > 1}
    for dim, axes in enumerate(layout.dims):
        before = 1
        for axis in axes:
            if mesh.size(axis) > 1:
                roles[axis] = (dim, before)
                before *= mesh.size(axis)
    return roles


@lru_cache(maxsize=1 << 12)
def _starts(dim: Axes, size: int, mesh: DeviceMesh, axes: Axes) -> Array:
    """Return where the box of each rank of the group begins on a dim; other axes stand at 0."""
    starts = np.zeros((1,) * len(axes), np.int64)
    stride = size
    for axis in dim:
        stride //= mesh.size(axis)
        if axis in axes:
            place = [1] * len(axes)
            place[axes.index(axis)] = mesh.size(axis)
            starts = starts + (np.arange(mesh.size(axis)) * stride).reshape(place)
    starts.flags.writeable = False
    return starts


def _touched(start: Array, length: int, block: int) -> Array:
    """Return how many blocks of size `block` each interval of this length touches."""
    if length == 0 or block == 0:
        return np.zeros_like(start)
    return (start + length - 1) // block - start // block + 1


def _box(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh, axes: Axes, position: int) -> Box:
    box = []
    local = layout.local_shape(shape, mesh)
    grid = tuple(mesh.size(axis) for axis in axes)
    for dim, length in enumerate(local):
        starts = np.broadcast_to(_starts(layout.dims[dim], shape[dim], mesh, axes), grid)
        start = int(starts.reshape(-1)[position])
        box.append((start, start + length))
    return tuple(box)


def _readers(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh, axes: Axes) -> dict[Box, list[int]]:
    found: dict[Box, list[int]] = {}
    for position in range(mesh.size_of(axes)):
        found.setdefault(_box(layout, shape, mesh, axes, position), []).append(position)
    return found


def _relative(piece: Box, box: Box) -> Box:
    return tuple((start - begin, stop - begin) for (start, stop), (begin, _) in zip(piece, box, strict=True))
