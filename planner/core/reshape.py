"""What a reshape keeps: the coarsest factors of which the dims of both shapes are ordered products.

Elements keep their row-major order, so a prefix of one shape lines up with a prefix of the other where their products
are equal, and there a *run* of cells ends. Inside a run the dims are cut at the boundaries of both shapes as long as
these divide each other: `8 2048 → 16384` has the cells 8 and 2048. Where they don't (`4 6 → 6 4`), the common divisor
of the next two dims is still a cell, and the rest of the run is one cell that each side cuts in its own way.

```text
before   (8)  (2048)        (4)        (6)
cells     8    2048          2  ┌───── 12 ─────┐
after    (8    2048)        (2      3)        (4)
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd

from ..errors import LayoutError
from .symbol import Size, quotient

Shape = tuple[Size, ...]
Piece = tuple[int, Size]
"""A dim, and the size of the part of it that is meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A factor of a reshape.

    Parameters
    ----------
    before, after
        The parts of dims that make it up on each side, major first. One part on each side is a *common* factor, that
        may be sharded like any index; none on a side is a dim of size 1 that comes or goes.
    """

    size: Size
    before: tuple[Piece, ...]
    after: tuple[Piece, ...]

    @property
    def common(self) -> bool:
        """Whether both sides have it as one part of one dim."""
        return len(self.before) == len(self.after) == 1


def cells(before: Shape, after: Shape) -> tuple[Cell, ...]:
    """Return the coarsest common refinement of two shapes of one tensor, in row-major order.

    Raises
    ------
    LayoutError
        `reshape.elements` if the shapes have different numbers of elements.
    """
    if 0 in before or 0 in after:
        raise LayoutError(
            "reshape.empty",
            f"The reshape of {_shown(before)} to {_shown(after)} is of a tensor without elements.",
            "Give sizes of at least 1.",
        )
    if _product(before) != _product(after):
        raise LayoutError(
            "reshape.elements",
            f"A tensor of shape {_shown(before)} has {_product(before)} elements, one of shape {_shown(after)} has "
            f"{_product(after)}.",
            "Give shapes with the same product.",
        )
    return tuple(_cells(before, after))


def _cells(before: Shape, after: Shape) -> Iterator[Cell]:
    left, right = _Side(before), _Side(after)
    while True:
        while left.at_one and right.at_one:
            yield Cell(size=1, before=(left.take(1),), after=(right.take(1),))
        while left.at_one:
            yield Cell(size=1, before=(left.take(1),), after=())
        while right.at_one:
            yield Cell(size=1, before=(), after=(right.take(1),))
        if left.done or right.done:
            return
        common = _common(left.size, right.size)
        if common != 1:
            divides = common in (left.size, right.size)
            yield Cell(size=common, before=(left.take(common),), after=(right.take(common),))
            if divides:
                continue
        yield _run(left, right)


def _run(left: _Side, right: _Side) -> Cell:
    """Take dims from both sides until their products agree."""
    mine, others = [left.take(left.size)], [right.take(right.size)]
    while _total(mine) != _total(others):
        take_left = not left.done and (right.done or _shorter(_total(mine), _total(others)))
        pieces, side = (mine, left) if take_left else (others, right)
        pieces.append(side.take(side.size))
    return Cell(size=_total(mine), before=tuple(mine), after=tuple(others))


class _Side:
    """A shape that is read dim by dim, or part of a dim by part."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.dim = 0
        self.size: Size = shape[0] if shape else 1

    @property
    def done(self) -> bool:
        return self.dim == len(self.shape)

    def take(self, size: Size) -> Piece:
        piece = self.dim, size
        left = quotient(self.size, size)
        assert left is not None
        self.size = left
        if left == 1:
            self._next()
        return piece

    @property
    def at_one(self) -> bool:
        return not self.done and self.size == 1

    def _next(self) -> None:
        self.dim += 1
        self.size = 1 if self.done else self.shape[self.dim]


def _common(a: Size, b: Size) -> Size:
    """Return the common divisor of two sizes as far as it is known; 1 if it is not."""
    if quotient(a, b) is not None:
        return b
    if quotient(b, a) is not None:
        return a
    return gcd(a, b) if isinstance(a, int) and isinstance(b, int) else 1


def _shorter(a: Size, b: Size) -> bool:
    """Return whether a size is known to be less than another; of symbolic ones, whether it divides it."""
    return a < b if isinstance(a, int) and isinstance(b, int) else quotient(b, a) is not None


def _total(pieces: Iterable[Piece]) -> Size:
    return _product(size for _, size in pieces)


def _product(sizes: Iterable[Size]) -> Size:
    total: Size = 1
    for size in sizes:
        total = total * size
    # A product of polynomials may be a number again.
    return quotient(total, 1) or 0


def _shown(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))})"
