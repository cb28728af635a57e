"""Sizes: a ring of polynomials with one text each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.core.symbol import Polynomial, Size, evaluate, parse, symbol
from planner.errors import ModelError

VALUES = frozenset({("B", 3), ("S", 7), ("T", -2)})
LEAVES = st.one_of(st.integers(-50, 50), st.sampled_from("BST").map(symbol))
SIZES = st.recursive(
    LEAVES,
    lambda inner: st.tuples(st.sampled_from(["add", "mul"]), inner, inner).map(
        lambda node: node[1] + node[2] if node[0] == "add" else node[1] * node[2]
    ),
    max_leaves=6,
)


def number(size: Size) -> int:
    return evaluate(size, VALUES)


@given(SIZES)
def test_reading_what_is_printed(size: Size) -> None:
    again = parse(str(size))
    assert Polynomial.of(again) == Polynomial.of(size)
    assert str(again) == str(size)
    assert isinstance(again, int) == (not any(names for names, _ in Polynomial.of(size).terms))


@given(SIZES, SIZES, SIZES)
def test_it_is_a_ring(a: Size, b: Size, c: Size) -> None:
    x, y, z = (Polynomial.of(size) for size in (a, b, c))
    assert x + y == y + x
    assert x * y == y * x
    assert x * (y + z) == x * y + x * z
    assert (x + y) + z == x + (y + z)
    assert number(x + y) == number(a) + number(b)
    assert number(x * y) == number(a) * number(b)


def test_equal_values_are_equal() -> None:
    b, s = symbol("B"), symbol("S")
    assert 8 * b * s == s * 8 * b
    assert b + b == 2 * b
    assert b + -1 * b == Polynomial()
    assert str(8 * b * s + 2) == "2 + 8·B·S"
    assert str(Polynomial()) == "0"
    assert parse("8*B*S + 2") == 8 * b * s + 2
    assert parse("3·4") == 12


@pytest.mark.parametrize("text", ["", "8·", "B - S", "8 B", "1.5", "B**2", "·B", "8..S", "é!", "9" * 19, "B" * 65])
def test_refused_texts(text: str) -> None:
    with pytest.raises(ModelError, match="is not a size") as caught:
        parse(text)
    assert caught.value.code == "model.size-syntax"
    assert "8·B·S" in str(caught.value)


def test_an_unbound_symbol_is_named() -> None:
    with pytest.raises(ModelError, match=r"symbol S.*Give S") as caught:
        evaluate(8 * symbol("S"), frozenset({("B", 2)}))
    assert caught.value.code == "model.symbol-unbound"
