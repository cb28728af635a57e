"""Integer polynomials over named symbols: sizes such as `8·B·S` that stay open until a plan fixes them.

Invariants: a polynomial is kept in canonical form (sorted monomials, no zero coefficient), so equal values compare
equal; `parse(str(p)) == p`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ..errors import ModelError

Monomial = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of integer multiples of products of symbols; build it with `symbol`, `parse` and arithmetic."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @staticmethod
    def of(value: Size) -> Polynomial:
        """Lift an integer; a polynomial is returned as it is."""
        return value if isinstance(value, Polynomial) else _canonical({(): value})

    def __add__(self, other: Size) -> Polynomial:
        out = dict(self.terms)
        for monomial, coefficient in Polynomial.of(other).terms:
            out[monomial] = out.get(monomial, 0) + coefficient
        return _canonical(out)

    __radd__ = __add__

    def __mul__(self, other: Size) -> Polynomial:
        out: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in Polynomial.of(other).terms:
                monomial = tuple(sorted(left + right))
                out[monomial] = out.get(monomial, 0) + a * b
        return _canonical(out)

    __rmul__ = __mul__

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        return " + ".join("·".join(([str(c)] if c != 1 or not m else []) + list(m)) for m, c in self.terms)


Size = int | Polynomial
SYMBOLS = frozenset({"B", "S"})
"""What a plan gives values: sequences in a microbatch, and the length of a sequence."""


def symbol(name: str) -> Polynomial:
    """Return the polynomial that is the single symbol `name`."""
    return Polynomial((((name,), 1),))


def parse(text: str) -> Size:
    """Read a polynomial written as by `str`, e.g. `8·B·S + 2`; a constant comes back as `int`.

    Raises
    ------
    ModelError
        `model.size-syntax` when the text is no such polynomial.
    """
    total = Polynomial()
    for part in text.split("+"):
        product = Polynomial.of(1)
        for factor in re.split(r"[·*]", part):
            word = factor.strip()
            if re.fullmatch(r"-?\d{1,18}", word):
                product = product * int(word)
            elif re.fullmatch(r"[A-Za-z_]\w{0,63}", word):
                product = product * symbol(word)
            else:
                raise ModelError(
                    "model.size-syntax",
                    f"{text!r} is not a size.",
                    "Write integers and symbols joined by · and +, e.g. 8·B·S.",
                )
        total = total + product
    return _constant(total)


@cache
def evaluate(size: Size, values: frozenset[tuple[str, int]]) -> int:
    """Return the integer that `size` has when each symbol takes its value.

    Parameters
    ----------
    size
        Integer or polynomial.
    values
        Pairs (symbol, integer), as a frozenset so that the result can be cached.
    """
    if isinstance(size, int):
        return size
    known: Mapping[str, int] = dict(values)
    total = 0
    for monomial, coefficient in size.terms:
        product = coefficient
        for name in monomial:
            if name not in known:
                raise ModelError(
                    "model.symbol-unbound", f"Size {size} needs a value for the symbol {name}.", f"Give {name}."
                )
            product *= known[name]
        total += product
    return total


def difference(size: Size, other: Size) -> Size:
    """Return the size that `other` lacks to be `size`."""
    return _constant(Polynomial.of(size) + -1 * Polynomial.of(other))


def quotient(size: Size, divisor: Size) -> Size | None:
    """Return the size whose product with `divisor` is `size`, or None where there is none.

    Sums are divided term by term by a single term; a sum as divisor divides only itself.
    """
    whole, part = Polynomial.of(size), Polynomial.of(divisor)
    if whole == part:
        return 1
    if len(part.terms) != 1 or not whole.terms:
        return None
    ((monomial, coefficient),) = part.terms
    out: dict[Monomial, int] = {}
    for names, count in whole.terms:
        left = list(names)
        for name in monomial:
            if name not in left:
                return None
            left.remove(name)
        if count % coefficient:
            return None
        out[tuple(left)] = count // coefficient
    return _constant(_canonical(out))


def positive(size: Size) -> bool:
    """Say whether a size is positive whatever positive values the plan's symbols take."""
    terms = Polynomial.of(size).terms
    return bool(terms) and all(SYMBOLS.issuperset(names) and count > 0 for names, count in terms)


def _canonical(terms: Mapping[Monomial, int]) -> Polynomial:
    return Polynomial(tuple(sorted((m, c) for m, c in terms.items() if c)))


def _constant(value: Polynomial) -> Size:
    if not value.terms:
        return 0
    (monomial, coefficient), *rest = value.terms
    return coefficient if not rest and not monomial else value
