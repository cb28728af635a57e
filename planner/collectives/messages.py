"""The messages of a direct exchange between two layouts, and what a rank keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
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

    Where partial sums are finished, a reader wants the box once from every coordinate of their axes, and always from
    the same replica, its own if it has one: replicas may have shared out their sums otherwise. Where some are made, of
    the ranks along the new axes the one at the owner's coordinate wants it, or at 0 of an axis that the source
    replicates.
    """
    finished = tuple(axis for axis in source.partial if axis not in target.partial)
    made = tuple(axis for axis in target.partial if axis not in source.partial)
    held: dict[Ranges, dict[int, list[int]]] = {}
    for (box, place), owners in _holders(source, shape, mesh, group, finished).items():
        held.setdefault(box, {})[place] = owners
    wanted = _holders(target, shape, mesh, group, made)
    messages: list[Transfer] = []
    for (box, summands), ((want, _), readers) in product(held.items(), wanted.items()):
        piece = meet(box, want)
        if piece is None or not _stands(source, made, mesh, summands[0][0], readers[0]):
            continue
        size = prod(stop - start for start, stop in piece)
        cut, put = relative(piece, box), relative(piece, want)
        replicas = {rank: i for owners in summands.values() for i, rank in enumerate(owners)}
        needy = [rank for rank in readers if rank not in replicas]
        for place, owners in summands.items():
            pairs = [
                (owners[replicas[rank]], rank, 0, size)
                for rank in readers
                if rank in replicas and mesh.index(rank, finished) != place
            ]
            messages += [
                Transfer(sender=owner, receiver=reader, source=cut, target=put, start=start, stop=stop)
                for owner, reader, start, stop in (*pairs, *shares(owners, needy, size))
            ]
    return tuple(messages)


def shares(owners: list[int], needy: list[int], size: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield owner, reader, start, stop of the messages by which owners serve readers of `size` elements equally."""
    for i, owner in enumerate(owners):
        begin = i * size * len(needy) // len(owners)
        end = (i + 1) * size * len(needy) // len(owners)
        while begin < end:
            reader, offset = divmod(begin, size)
            stop = min(size, offset + end - begin)
            yield owner, needy[reader], offset, stop
            begin += stop - offset


def kept_box(
    source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh, rank: int
) -> tuple[Ranges, Ranges] | None:
    """Return the box that a rank keeps, in local indices before and after; None if there is none."""
    made = tuple(axis for axis in target.partial if axis not in source.partial)
    box, want = (ranges(layout, shape, mesh, rank) for layout in (source, target))
    piece = meet(box, want)
    if piece is None or not _stands(source, made, mesh, rank, rank):
        return None
    return relative(piece, box), relative(piece, want)


def _stands(source: Layout, made: Axes, mesh: DeviceMesh, owner: int, reader: int) -> bool:
    """Return whether, of the ranks that will hold summands, it is this reader that gets the value of the owner."""
    here, there = mesh.coordinates(owner), mesh.coordinates(reader)
    return all(there[axis] == (here[axis] if axis in source.sharded else 0) for axis in made)


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
        for (want, _), readers in _holders(target, shape, mesh, group).items():
            if any(start == stop for start, stop in want):
                continue
            owners = held[want, 0]
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
    layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh, group: tuple[int, ...], axes: Axes = ()
) -> dict[tuple[Ranges, int], list[int]]:
    """Return who holds each box, apart by the position along `axes`."""
    found: dict[tuple[Ranges, int], list[int]] = {}
    for rank in group:
        found.setdefault((ranges(layout, shape, mesh, rank), mesh.index(rank, axes)), []).append(rank)
    return found
