"""Whether a merged dim such as `(g r e)` can lie over the axes of its factors: index boxes decide, not sizes.

The axes of a merged dim are those of its factors, major first. Of the dim, a rank holds the nested ceil-chunk of the
whole size; of the operator's index space it holds the product of the factors' chunks. These must be the same indices on
every rank: where only their numbers agree, shards fit and hold the wrong contents.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from .chunk import chunk
from .mesh import DeviceMesh

Range = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """A rank whose chunk of a merged dim is not what its factors say.

    Parameters
    ----------
    position
        Position of the rank along the dim's axes, the first one major.
    held
        `start, stop` of its chunk of the dim.
    factors
        Its `start, stop` of every factor.
    """

    position: int
    held: Range
    factors: tuple[Range, ...]


@lru_cache(maxsize=4096)
def mismatch(sizes: tuple[int, ...], cuts: tuple[tuple[int, ...], ...]) -> Mismatch | None:
    """Return the first rank on which chunks of dim and factors differ; None if they agree on every rank.

    Parameters
    ----------
    sizes
        Size of every factor, major first.
    cuts
        Per factor, the sizes of the axes on it, major first.
    """
    if _whole_blocks(sizes, cuts):
        return None
    names = [tuple(f"f{i}_{j}" for j in range(len(counts))) for i, counts in enumerate(cuts)]
    axes = tuple(name for own in names for name in own)
    mesh = DeviceMesh.of(dict(zip(axes, (n for counts in cuts for n in counts), strict=True)))
    for position in range(mesh.device_count):
        held = chunk(prod(sizes), axes, mesh, position)
        factors = tuple(chunk(size, own, mesh, position) for size, own in zip(sizes, names, strict=True))
        if not _same(held, factors, sizes):
            return Mismatch(position=position, held=held, factors=factors)
    return None


def _whole_blocks(sizes: tuple[int, ...], cuts: tuple[tuple[int, ...], ...]) -> bool:
    """Return whether every factor is cut evenly, and a minor one only when the major ones are down to 1."""
    down = True
    for size, counts in zip(sizes, cuts, strict=True):
        count = prod(counts)
        if size % count or (count > 1 and not down):
            return False
        down = down and size == count
    return True


def _same(held: Range, factors: tuple[Range, ...], sizes: tuple[int, ...]) -> bool:
    """Return whether the indices `held` are those of the box of the factors.

    The indices of a box lie between its first and its last; they are a range iff there are as many as between them.
    """
    volume = prod(stop - start for start, stop in factors)
    if not volume:
        return held[0] == held[1]
    first = last = 0
    for (start, stop), size in zip(factors, sizes, strict=True):
        first, last = first * size + start, last * size + stop - 1
    return held == (first, last + 1) and volume == held[1] - held[0]
