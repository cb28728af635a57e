"""Which elements ranks hold, as sets that can be compared across a reshape and between meshes.

Two shapes of a tensor are cut at the boundaries that they share into *spans*: runs of dims with equal products. On a
span a rank's part is a set of equally long runs of consecutive elements; its part of the tensor is the product of these
sets. The number of elements that two parts share is then a product over spans, of counts that need no list of elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from ..core.crossing import Holding
from ..core.slices import Ranges
from ..errors import LayoutError

Array = npt.NDArray[np.int64]
MAX_RUNS = 1 << 22
MAX_ELEMENTS = 1 << 60
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
        if not self.count:
            return np.zeros_like(places)
        run = np.searchsorted(self.starts, places, side="right") - 1
        inside = np.clip(places - self.starts[np.maximum(run, 0)], 0, self.length)
        return np.where(run < 0, 0, run * self.length + inside)

    def elements(self) -> Array:
        """Return all elements."""
        return (self.starts[:, None] + np.arange(self.length)).reshape(-1)


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


def same_parts(source: Holding, target: Holding) -> bool:
    """Return whether every rank holds the same elements in both; errors as `spans` and `parts_of`."""
    if source == target:
        return True
    cut = spans(source.shape, target.shape)
    before = parts_of(source, [span for span, _ in cut])
    after = parts_of(target, [span for _, span in cut])
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


def parts_of(holding: Holding, cut: list[tuple[int, ...]]) -> Parts:
    """Return the different parts of a holding on given spans of its dims.

    Raises
    ------
    LayoutError
        `handover.runs`; `handover.elements` for a tensor of which counts would leave the range of integers.
    """
    if prod(holding.shape) > MAX_ELEMENTS:
        raise LayoutError(
            "handover.elements",
            f"A tensor of shape {holding.shape} has more than {MAX_ELEMENTS:,} elements.",
            "Give smaller sizes.",
        )
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


def common_count(mine: Runs, theirs: Runs) -> int:
    """Return the number of elements that two sets of one span share."""
    if len(mine.starts) == len(theirs.starts) == 1:
        a, b = int(mine.starts[0]), int(theirs.starts[0])
        return max(0, min(a + mine.length, b + theirs.length) - max(a, b))
    few, many = (mine, theirs) if len(mine.starts) < len(theirs.starts) else (theirs, mine)
    return int((many.below(few.starts + few.length) - many.below(few.starts)).sum())


def _equal(mine: Runs, theirs: Runs) -> bool:
    return mine.length == theirs.length and np.array_equal(mine.starts, theirs.starts)
