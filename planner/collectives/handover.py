"""The direct exchange from one holding to another: between meshes over the same ranks, and through a reshape.

Both shapes are cut at the boundaries that they share into *spans*: runs of dims with equal products. On a span a rank's
part is a set of equally long runs of consecutive elements; its part of the tensor is the product of these sets. The
number of elements that two parts share is then a product over spans, of counts that need no list of elements.

Within a holding two parts are equal or disjoint. For a source part with owners O and a target part with readers W,

```text
received(r) = |T(r)| - |T(r) ∩ S(r)|
sent(o)     = sum over target parts of |S ∩ T| · |W - O| / |O|
```

since readers that own the elements need nothing, and the owners share the rest equally. Owners and readers are taken in
the order of ranks, and each owner serves the next stretch of the demand: of all ways to share it equally this one has
the least total distance between ranks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from ..core.crossing import VIEW, Holding, Leg
from ..core.slices import Ranges
from ..errors import LayoutError
from . import COLLECTIVES
from .boxes import Demand
from .definition import World

Array = npt.NDArray[np.int64]
MAX_RUNS = 1 << 22
Span = tuple[tuple[int, ...], tuple[int, ...]]
"""Dims of the source and dims of the target, with equal products."""


@dataclass(frozen=True, slots=True)
class Runs:
    """A set of elements of a span: all elements of runs of one length, in rising order; no two runs touch."""

    starts: Array
    length: int

    @property
    def count(self) -> int:
        """Number of elements."""
        return len(self.starts) * self.length

    def below(self, places: Array) -> Array:
        """Return how many elements of the set lie below each place."""
        run = np.searchsorted(self.starts, places, side="right") - 1
        inside = np.clip(places - self.starts[np.maximum(run, 0)], 0, self.length)
        return np.where(run < 0, 0, run * self.length + inside)

    def elements(self) -> Array:
        """Return all elements."""
        return (self.starts[:, None] + np.arange(self.length)).reshape(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What one rank sends to another: a stretch of the elements that a source part and a target part share.

    Parameters
    ----------
    source, target
        Positions of the parts in `Parts.members`.
    start, stop
        Of the shared elements in row-major order.
    """

    sender: int
    receiver: int
    source: int
    target: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The different parts of a holding.

    Parameters
    ----------
    sets
        Per span, its different sets of elements.
    chosen
        Per part and span, the position of its set in `sets`.
    members
        Per part, the ranks that hold it.
    of_rank
        Per rank, its part.
    """

    sets: tuple[tuple[Runs, ...], ...]
    chosen: tuple[tuple[int, ...], ...]
    members: tuple[tuple[int, ...], ...]
    of_rank: Array

    def runs(self, part: int) -> tuple[Runs, ...]:
        """Return the elements of a part, span by span."""
        return tuple(sets[i] for sets, i in zip(self.sets, self.chosen[part], strict=True))

    def elements(self, part: int) -> int:
        """Return the number of elements of a part."""
        return prod(runs.count for runs in self.runs(part))


def handover_demand(source: Holding, target: Holding) -> Demand:
    """Return what the busiest rank of a handover moves.

    Raises
    ------
    LayoutError
        `handover.partial` for partial values, `handover.ranks` for other ranks, `handover.runs` where a reshape
        would scatter parts over too many runs; `reshape.elements`.
    """
    shared, before, after = _overlaps(source, target)
    kept = shared[before.of_rank, after.of_rank]
    wanted = np.array([after.elements(j) for j in range(len(after.members))], np.int64)[after.of_rank]
    owners, lacking = _counts(before, after)
    sent = (shared * lacking / owners[:, None]).sum(axis=1)
    touched = shared > 0
    # Parts that come to a rank. What several owners send of one part travels at the same time and counts once.
    come = touched.sum(axis=0)[after.of_rank] - (kept > 0)
    go = -(-(touched * lacking).sum(axis=1) // owners)
    rounds = int(max(come.max(), go.max()))
    return Demand(received=int((wanted - kept).max()), sent=float(sent.max()), pieces=rounds)


def leg_received(leg: Leg) -> float:
    """Return the elements that the busiest rank receives in a leg of a crossing."""
    if leg.step is not None:
        return COLLECTIVES[leg.kind].received(leg.step, leg.source.mesh)
    return 0.0 if leg.kind == VIEW else handover_demand(leg.source, leg.target).received


@lru_cache(maxsize=64)
def handover_messages(source: Holding, target: Holding) -> tuple[Message, ...]:
    """Return every message, ordered by source part, target part and sender; errors as `handover_demand`."""
    shared, before, after = _overlaps(source, target)
    messages = []
    for i, j in np.argwhere(shared > 0).tolist():
        owners = before.members[i]
        needy = [rank for rank in after.members[j] if rank not in owners]
        size = int(shared[i, j])
        for position, owner in enumerate(owners):
            begin = position * size * len(needy) // len(owners)
            end = (position + 1) * size * len(needy) // len(owners)
            while begin < end:
                reader, offset = divmod(begin, size)
                stop = min(size, offset + end - begin)
                messages.append(
                    Message(sender=owner, receiver=needy[reader], source=i, target=j, start=offset, stop=stop)
                )
                begin += stop - offset
    return tuple(messages)


def run_handover(source: Holding, target: Holding, world: World) -> World:
    """Return what every rank holds after a handover; errors as `handover_demand`."""
    shared, before, after = _overlaps(source, target)
    places = _Places(before, after)
    out: World = [np.zeros(target.local_shape(rank), array.dtype) for rank, array in enumerate(world)]
    for rank, (i, j) in enumerate(zip(before.of_rank.tolist(), after.of_rank.tolist(), strict=True)):
        if shared[i, j]:
            there, here = places.of(i, j)
            out[rank].reshape(-1)[here] = world[rank].reshape(-1)[there]
    for message in handover_messages(source, target):
        there, here = places.of(message.source, message.target)
        stretch = slice(message.start, message.stop)
        out[message.receiver].reshape(-1)[here[stretch]] = world[message.sender].reshape(-1)[there[stretch]]
    return out


def same_parts(source: Holding, target: Holding) -> bool:
    """Return whether every rank holds the same elements in both; errors as `spans` and `handover.runs`."""
    cut = spans(source.shape, target.shape)
    before = _parts(source, [span for span, _ in cut])
    after = _parts(target, [span for _, span in cut])
    pairs = {
        (k, before.chosen[i][k], after.chosen[j][k])
        for i, j in set(zip(before.of_rank.tolist(), after.of_rank.tolist(), strict=True))
        # Which dim of a part without elements is the empty one makes no difference.
        if before.elements(i) or after.elements(j)
        for k in range(len(cut))
    }
    return all(_equal(before.sets[k][a], after.sets[k][b]) for k, a, b in pairs)


def spans(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[Span, ...]:
    """Return the shortest runs of dims of two shapes that have equal products.

    Raises
    ------
    LayoutError
        `reshape.elements` if there are none.
    """
    if before == after:
        return tuple(((dim,), (dim,)) for dim in range(len(before)))
    if prod(before) != prod(after) or 0 in before:
        raise LayoutError(
            "reshape.elements",
            f"A tensor of shape {before} has {prod(before)} elements, one of shape {after} has {prod(after)}.",
            "Give shapes with the same product, of at least 1.",
        )
    found: list[Span] = []
    i = j = 0
    while i < len(before) or j < len(after):
        first, second = i, j
        if i < len(before):
            i += 1
        if j < len(after):
            j += 1
        while prod(before[first:i]) != prod(after[second:j]):
            if prod(before[first:i]) < prod(after[second:j]):
                i += 1
            else:
                j += 1
        found.append((tuple(range(first, i)), tuple(range(second, j))))
    return tuple(found)


@lru_cache(maxsize=64)
def _overlaps(source: Holding, target: Holding) -> tuple[Array, Parts, Parts]:
    """Return how many elements each source part shares with each target part, and the parts."""
    for holding in (source, target):
        if holding.layout.partial:
            raise LayoutError(
                "handover.partial",
                f"A handover from {source.layout} to {target.layout} can't reduce or make partial results.",
                "Reduce them before it, or make them after it.",
            )
    if source.mesh.device_count != target.mesh.device_count:
        raise LayoutError(
            "handover.ranks",
            f"The mesh {source.mesh} has {source.mesh.device_count} ranks, the mesh {target.mesh} has "
            f"{target.mesh.device_count}.",
            "Give meshes over the same ranks.",
        )
    cut = spans(source.shape, target.shape)
    before = _parts(source, [span for span, _ in cut])
    after = _parts(target, [span for _, span in cut])
    shared = np.ones((len(before.members), len(after.members)), np.int64)
    for k, (mine, theirs) in enumerate(zip(before.sets, after.sets, strict=True)):
        common = np.array([[_common(a, b) for b in theirs] for a in mine], np.int64)
        shared *= common[np.ix_([chosen[k] for chosen in before.chosen], [chosen[k] for chosen in after.chosen])]
    shared.flags.writeable = False
    return shared, before, after


def _parts(holding: Holding, cut: list[tuple[int, ...]]) -> Parts:
    members: dict[Ranges, list[int]] = {}
    for rank in range(holding.mesh.device_count):
        members.setdefault(holding.part(rank), []).append(rank)
    known: list[dict[Ranges, int]] = [{} for _ in cut]
    chosen = []
    of_rank = np.zeros(holding.mesh.device_count, np.int64)
    for position, (part, ranks) in enumerate(members.items()):
        of_rank[ranks] = position
        boxes = [tuple(part[dim] for dim in dims) for dims in cut]
        chosen.append(tuple(seen.setdefault(box, len(seen)) for seen, box in zip(known, boxes, strict=True)))
    return Parts(
        sets=tuple(
            _sets(tuple(holding.shape[dim] for dim in dims), seen) for seen, dims in zip(known, cut, strict=True)
        ),
        chosen=tuple(chosen),
        members=tuple(map(tuple, members.values())),
        of_rank=of_rank,
    )


def _sets(shape: tuple[int, ...], boxes: Iterable[Ranges]) -> tuple[Runs, ...]:
    """Return the elements of every box of a span."""
    found, count = [], 0
    for box in boxes:
        count += _run_count(shape, box)
        if count > MAX_RUNS:
            raise LayoutError(
                "handover.runs",
                f"A reshape of {shape} cuts its parts into more than {MAX_RUNS:,} separate runs of elements.",
                "Shard the major one of the dims that are merged, or gather the dim before the reshape.",
            )
        found.append(_runs(shape, box))
    return tuple(found)


def _run_count(shape: tuple[int, ...], part: Ranges) -> int:
    """Return the number of runs: one for every index of the dims before the last that is cut."""
    cut = [dim for dim, (size, (start, stop)) in enumerate(zip(shape, part, strict=True)) if stop - start < size]
    return prod(stop - start for start, stop in part[: cut[-1]]) if cut else 1


def _runs(shape: tuple[int, ...], part: Ranges) -> Runs:
    """Return the elements of a box, counted row-major within its span."""
    count = prod(stop - start for start, stop in part)
    starts, length, size = np.zeros(1, np.int64), 1, 1
    for whole, (start, stop) in zip(reversed(shape), reversed(part), strict=True):
        if len(starts) == 1 and length == size:
            starts, length = starts + start * size, (stop - start) * size
        else:
            starts = (np.arange(start, stop)[:, None] * size + starts).reshape(-1)
        size *= whole
    return Runs(starts if count else starts[:0], length if count else 0)


def _common(mine: Runs, theirs: Runs) -> int:
    if not mine.count or not theirs.count:
        return 0
    if len(mine.starts) == len(theirs.starts) == 1:
        a, b = int(mine.starts[0]), int(theirs.starts[0])
        return max(0, min(a + mine.length, b + theirs.length) - max(a, b))
    few, many = (mine, theirs) if len(mine.starts) < len(theirs.starts) else (theirs, mine)
    return int((many.below(few.starts + few.length) - many.below(few.starts)).sum())


def _equal(mine: Runs, theirs: Runs) -> bool:
    return mine.length == theirs.length and np.array_equal(mine.starts, theirs.starts)


def _counts(before: Parts, after: Parts) -> tuple[Array, Array]:
    """Return the number of owners of every source part, and of readers of a target part that are none of them."""
    owners = np.array([len(members) for members in before.members], np.int64)
    readers = np.array([len(members) for members in after.members], np.int64)
    both = np.zeros((len(owners), len(readers)), np.int64)
    np.add.at(both, (before.of_rank, after.of_rank), 1)
    return owners, readers - both


class _Places:
    """Where the shared elements of two parts lie in the arrays of an owner and of a reader, in row-major order."""

    def __init__(self, before: Parts, after: Parts) -> None:
        self.before, self.after = before, after
        self.known: dict[tuple[int, int, int], tuple[Array, Array]] = {}

    def of(self, source: int, target: int) -> tuple[Array, Array]:
        """Return the places of two parts."""
        there, here = np.zeros(1, np.int64), np.zeros(1, np.int64)
        for k, (a, b) in enumerate(zip(self.before.chosen[source], self.after.chosen[target], strict=True)):
            mine, theirs = self.before.sets[k][a], self.after.sets[k][b]
            if (k, a, b) not in self.known:
                _, in_a, in_b = np.intersect1d(
                    mine.elements(), theirs.elements(), assume_unique=True, return_indices=True
                )
                self.known[k, a, b] = in_a, in_b
            in_a, in_b = self.known[k, a, b]
            there = (there[:, None] * mine.count + in_a).reshape(-1)
            here = (here[:, None] * theirs.count + in_b).reshape(-1)
        return there, here
