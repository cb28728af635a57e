"""Cells of a reshape: against the chain of cumulative products, and by following every element."""

from itertools import accumulate, pairwise
from math import prod
from operator import mul

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.core.reshape import Cell, Shape, cells
from planner.core.symbol import Polynomial, symbol
from planner.errors import LayoutError

B, S = symbol("B"), symbol("S")


def sizes(found: tuple[Cell, ...]) -> list[str]:
    return [str(cell.size) if cell.common else f"{cell.size}!" for cell in found]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((8, 2048), (16384,), ["8", "2048"]),
        ((2, 16, 32), (32, 32), ["2", "16", "32"]),
        ((512, 1024), (128, 4096), ["128", "4", "1024"]),
        ((32, 6, 128, 28, 10), (4, 8, 2, 384, 280), ["4", "8", "2", "3", "128", "28", "10"]),
        ((4, 8, 4, 12), (4, 8, 12, 4), ["4", "8", "4", "3", "4"]),
        ((4, 3), (3, 4), ["12!"]),
        ((4, 6), (6, 4), ["2", "12!"]),
        ((5, 4, 6, 7), (5, 6, 4, 7), ["5", "2", "12!", "7"]),
        ((1, 4, 1, 8), (4, 8, 1), ["1!", "4", "1!", "8", "1!"]),
        ((4, 1, 8), (4, 1, 8), ["4", "1", "8"]),
        ((), (1,), ["1!"]),
        ((), (), []),
        ((B, S, 4096), (B * S, 4096), ["B", "S", "4096"]),
        ((B, S, 4096), (B, S, 8, 512), ["B", "S", "8", "512"]),
        ((8 * B, S), (B, 8 * S), ["B", "8", "S"]),
        ((B * S, 6), (S * B * 2, 3), ["B·S", "2", "3"]),
        ((B, S), (S, B), ["B·S!"]),
        ((B, S, 4), (S, B, 4), ["B·S!", "4"]),
    ],
)
def test_by_hand(before: Shape, after: Shape, said: list[str]) -> None:
    assert sizes(cells(before, after)) == said


def factored(draw: st.DrawFn, factors: list[int]) -> tuple[int, ...]:
    """Join neighbours at random, and put ones between."""
    shape: list[int] = []
    for factor in factors:
        if shape and draw(st.booleans()):
            shape[-1] *= factor
        else:
            shape += [1] * draw(st.integers(0, 1)) + [factor]
    return tuple(shape)


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    factors = draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    other = draw(st.permutations(factors)) if draw(st.booleans()) else factors
    return factored(draw, factors), factored(draw, other)


def cumulative(shape: tuple[int, ...]) -> set[int]:
    return {1, *accumulate(reversed(shape), mul)}


@given(reshapes())
def test_a_chain_of_cumulative_products_gives_the_cells(made) -> None:
    before, after = made
    chain = sorted(cumulative(before) | cumulative(after))
    found = [cell for cell in cells(before, after) if cell.size != 1]
    if all(high % low == 0 for low, high in pairwise(chain)):
        assert all(cell.common for cell in found)
        assert [cell.size for cell in found] == [high // low for low, high in reversed(list(pairwise(chain)))]
    else:
        assert not all(cell.common for cell in found)


@given(reshapes())
def test_common_cells_are_one_index_on_both_sides(made) -> None:
    before, after = made
    found = cells(before, after)
    index = np.arange(prod(before))
    both = []
    for shape, side in ((before, lambda c: c.before), (after, lambda c: c.after)):
        coordinates = np.unravel_index(index, shape)
        seen = {}
        for dim, size in enumerate(shape):
            inner = size
            for cell in found:
                for at, part in side(cell):
                    if at == dim:
                        inner //= part
                        seen[id(cell), dim] = coordinates[dim] // inner % part
            assert inner == 1
        both.append([seen[id(cell), side(cell)[0][0]] for cell in found if cell.common])
    for mine, theirs in zip(*both, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@given(reshapes())
def test_cells_are_the_coarsest(made) -> None:
    """No two neighbouring common cells lie together in one dim of both sides."""
    for one, two in pairwise(cell for cell in cells(*made) if cell.size != 1):
        if one.common and two.common:
            assert (one.before[0][0], one.after[0][0]) != (two.before[0][0], two.after[0][0])


@pytest.mark.parametrize(
    ("before", "after", "code", "said"),
    [
        ((8, 3), (5, 5), "reshape.elements",
         "A tensor of shape (8, 3) has 24 elements, one of shape (5, 5) has 25. Give shapes with the same product."),
        ((B, 3), (S, 3), "reshape.elements",
         "A tensor of shape (B, 3) has 3·B elements, one of shape (S, 3) has 3·S. Give shapes with the same product."),
        ((0, 3), (3, 0), "reshape.empty",
         "The reshape of (0, 3) to (3, 0) is of a tensor without elements. Give sizes of at least 1."),
    ],
)  # fmt: skip
def test_refusals(before: Shape, after: Shape, code: str, said: str) -> None:
    with pytest.raises(LayoutError) as caught:
        cells(before, after)
    assert (caught.value.code, str(caught.value)) == (code, said)


def test_sizes_of_cells_multiply_to_the_whole() -> None:
    found = cells((B, S, 8, 64), (B * S, 512))
    whole = Polynomial.of(1)
    for cell in found:
        whole = whole * cell.size
    assert whole == 512 * B * S
