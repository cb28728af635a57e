"""Merged dims: the axes of the factors give each rank the elements that it computes, by brute force over elements."""

from itertools import product
from math import prod

import pytest

from planner.core.merged import mismatch

Cuts = tuple[tuple[int, ...], ...]


def chunks(indices: list[int], count: int) -> list[list[int]]:
    """Cut as torch does: chunks of one length, rounded up, the last ones shorter or empty."""
    length = max(1, -(-len(indices) // count))
    return [indices[i * length : (i + 1) * length] for i in range(count)]


def held(size: int, counts: tuple[int, ...], coordinates: tuple[int, ...]) -> list[int]:
    """Return the indices of a dim that a rank holds."""
    indices = list(range(size))
    for count, coordinate in zip(counts, coordinates, strict=True):
        indices = chunks(indices, count)[coordinate]
    return indices


def wrong_ranks(sizes: tuple[int, ...], cuts: Cuts) -> list[int]:
    """Return the ranks whose part of the merged dim is not the product of their parts of the factors."""
    counts = tuple(n for own in cuts for n in own)
    found = []
    for position, coordinates in enumerate(product(*(range(n) for n in counts))):
        left = list(coordinates)
        parts = []
        for size, own in zip(sizes, cuts, strict=True):
            parts.append(held(size, own, tuple(left[: len(own)])))
            del left[: len(own)]
        elements = []
        for indices in product(*parts):
            element = 0
            for index, size in zip(indices, sizes, strict=True):
                element = element * size + index
            elements.append(element)
        if elements != held(prod(sizes), counts, coordinates):
            found.append(position)
    return found


SINGLE = [
    ((size, minor), ((count,), ())) for size in range(1, 9) for minor in range(1, 6) for count in (2, 3, 4, 5, 6, 8)
]
DOUBLE: list[tuple[tuple[int, ...], Cuts]] = [
    (sizes, cuts)
    for sizes in product(range(1, 6), range(1, 5))
    for a, b in product((1, 2, 3, 4), repeat=2)
    for cuts in (((a,), (b,)), ((a, b), ()), ((), (a, b)), ((), (a,)))
]  # fmt: skip
TRIPLE: list[tuple[tuple[int, ...], Cuts]] = [
    (sizes, cuts)
    for sizes in product(range(1, 4), repeat=3)
    for a, b in product((2, 3), repeat=2)
    for cuts in (((a,), (b,), ()), ((a,), (), (b,)), ((), (a,), (b,)), ((a, b), (), ()))
]


@pytest.mark.parametrize("cases", [SINGLE, DOUBLE, TRIPLE], ids=["one axis", "two axes", "three factors"])
def test_a_merged_dim_is_legal_where_every_rank_holds_what_it_computes(
    cases: list[tuple[tuple[int, ...], Cuts]],
) -> None:
    legal = 0
    for sizes, cuts in cases:
        expected, found = wrong_ranks(sizes, cuts), mismatch(sizes, cuts)
        assert (found is None) == (not expected), (sizes, cuts)
        if found is not None:
            assert found.position == expected[0], (sizes, cuts)
        legal += found is None
    assert 0 < legal < len(cases)


def test_a_dim_that_divides_may_still_be_wrong() -> None:
    """Divisibility of the merged dim decides nothing: 3 × 2 over 2 gives 3 and 3, of factors 2 × 2 and 1 × 2."""
    divisible = [(s, c) for s, c in SINGLE if prod(s) % c[0][0] == 0]
    assert len([1 for s, c in divisible if mismatch(s, c) is not None]) > len(divisible) // 10
    found = mismatch((3, 2), ((2,), ()))
    assert found is not None
    assert (found.position, found.held, found.factors) == (0, (0, 3), ((0, 2), (0, 2)))


def test_unequal_parts_may_be_right() -> None:
    """Six rows of two over eight ranks: one row each, and two ranks without any, as the chunks of twelve are."""
    assert mismatch((6, 2), ((8,), ())) is None
