"""What arrives at the ranks in a step, as index ranges."""

from __future__ import annotations

from ..core.collective import Step
from ..core.mesh import DeviceMesh
from ..core.slices import Ranges, ranges
from .slices import MAX_RANKS

Boxes = tuple[Ranges, ...]
"""Parts that have no element in common."""


def arrivals(step: Step, shape: tuple[int, ...], mesh: DeviceMesh, limit: int = MAX_RANKS) -> tuple[Boxes, ...]:
    """Return, for the first ranks, the parts whose values a rank has after a step and had not before.

    Where a step finishes partial values, all that a rank holds afterwards is new to it.

    Parameters
    ----------
    shape
        Global shape of the tensor.
    limit
        How many ranks at most.
    """
    reduces = bool(set(step.source.partial) - set(step.target.partial))
    found = []
    for rank in range(min(limit, mesh.device_count)):
        part = ranges(step.target, shape, mesh, rank)
        new = (part,) if all(start < stop for start, stop in part) else ()
        found.append(new if reduces else minus(part, ranges(step.source, shape, mesh, rank)))
    return tuple(found)


def minus(part: Ranges, held: Ranges) -> Boxes:
    """Return what lies in one box and not in the other, cut into boxes dim by dim.

    Examples
    --------
    >>> minus(((0, 4), (0, 4)), ((1, 4), (0, 2)))
    (((0, 1), (0, 4)), ((1, 4), (2, 4)))
    """
    if any(start >= stop for start, stop in part):
        return ()
    overlap = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(part, held, strict=True))
    if any(start >= stop for start, stop in overlap):
        return (part,)
    boxes, rest = [], list(part)
    for dim, (low, high) in enumerate(overlap):
        start, stop = rest[dim]
        for piece in ((start, low), (high, stop)):
            if piece[0] < piece[1]:
                boxes.append((*rest[:dim], piece, *rest[dim + 1 :]))
        rest[dim] = (low, high)
    return tuple(boxes)
