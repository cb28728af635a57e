"""The messages of a direct exchange between two layouts, and what a rank keeps."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.slices import Ranges, ranges
from .boxes import moved_axes


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One message of an exchange, between two ranks.

    Parameters
    ----------
    source, target
        The box that it is cut from, in local indices of the sender and of the receiver.
    start, stop
        The part of that box that is sent, as a range of its elements in row-major order.
    """

    sender: int
    receiver: int
    source: Ranges
    target: Ranges
    start: int
    stop: int


def transfers(
    source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh, group: tuple[int, ...]
) -> tuple[Transfer, ...]:
    """Return the messages within a group of ranks that differ along the axes that move.

    The demand for the part of a box that some ranks want is laid on a line, reader after reader,
    and cut into equal lengths, one for each owner.
    """
    held = _holders(source, shape, mesh, group)
    wanted = _holders(target, shape, mesh, group)
    messages: list[Transfer] = []
    for (box, owners), (want, readers) in product(held.items(), wanted.items()):
        piece = meet(box, want)
        needy = [rank for rank in readers if rank not in owners]
        if piece is None or not needy:
            continue
        size = prod(stop - start for start, stop in piece)
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
                        source=relative(piece, box),
                        target=relative(piece, want),
                        start=offset,
                        stop=stop,
                    )
                )
                begin += stop - offset
    return tuple(messages)


def kept_box(
    source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh, rank: int
) -> tuple[Ranges, Ranges] | None:
    """Return the box that a rank keeps, in local indices before and after; None if there is none."""
    box, want = (ranges(layout, shape, mesh, rank) for layout in (source, target))
    piece = meet(box, want)
    return None if piece is None else (relative(piece, box), relative(piece, want))


@lru_cache(maxsize=1 << 10)
def senders(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> tuple[int, ...]:
    """Return, for every rank, the rank that holds all that it wants, each serving one: a permutation.

    Who holds what it wants serves itself, and so does who wants nothing. Both layouts must cut the tensor into the
    same boxes, with as many owners as readers.
    """
    found = list(range(mesh.device_count))
    axes = moved_axes(source, target, shape, mesh)
    for first in found[:]:
        if mesh.index(first, axes):
            continue
        group = mesh.group(axes, first)
        held = _holders(source, shape, mesh, group)
        for want, readers in _holders(target, shape, mesh, group).items():
            if any(start == stop for start, stop in want):
                continue
            owners = held[want]
            free = [rank for rank in owners if rank not in readers]
            for reader, owner in zip((rank for rank in readers if rank not in owners), free, strict=True):
                found[reader] = owner
    return tuple(found)


def meet(box: Ranges, other: Ranges) -> Ranges | None:
    """Return what two boxes have in common; None if it is empty."""
    piece = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, other, strict=True))
    return piece if all(start < stop for start, stop in piece) else None


def relative(piece: Ranges, box: Ranges) -> Ranges:
    """Return a box in indices that count from the beginning of the box that holds it."""
    return tuple((start - begin, stop - begin) for (start, stop), (begin, _) in zip(piece, box, strict=True))


def _holders(
    layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh, group: tuple[int, ...]
) -> dict[Ranges, list[int]]:
    found: dict[Ranges, list[int]] = {}
    for rank in group:
        found.setdefault(ranges(layout, shape, mesh, rank), []).append(rank)
    return found
