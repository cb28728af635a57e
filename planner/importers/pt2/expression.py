"""Symbolic sizes of torch, as text, → polynomials. Nothing is evaluated; what is no polynomial is None.

```text
sum     = product (("+" | "-") product)*         product = power ("*" power)*
power   = atom ("**" integer)?                   atom    = "-" atom | "(" sum ")" | integer | name | call
call    = Integer(n) | Symbol('name', …) | Add(sum, …) | Mul(sum, …) | Pow(sum, Integer(n))
```

Files hold the forms of calls, with symbols such as `Symbol('s27', positive=True, integer=True)`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...core.symbol import Polynomial, Size, symbol

_TOKEN = re.compile(r"\s*(\*\*|[A-Za-z_]\w*|\d+|'[^']*'|[-+*(),=])")
_MAX_TEXT, _MAX_TOKENS, _MAX_DEPTH = 4000, 800, 40
_MAX_TERMS, _MAX_DEGREE, _MAX_NUMBER = 64, 12, 1 << 62


class _NoPolynomialError(Exception):
    """The text is something else."""


def read_size(text: str, names: Mapping[str, str]) -> Size | None:
    """Return the size that a text says, with symbols renamed.

    Parameters
    ----------
    names
        Symbol of torch → symbol of ours; a symbol that is not in it makes the size unknown.

    Returns
    -------
    None if the text is no polynomial of these symbols.
    """
    tokens = _tokens(text)
    if tokens is None:
        return None
    reader = _Reader(tokens, names)
    try:
        size = reader.sum(0)
        if reader.at < len(tokens):
            return None
    except _NoPolynomialError:
        return None
    whole = Polynomial.of(size)
    if not whole.terms:
        return 0
    return whole.terms[0][1] if len(whole.terms) == 1 and not whole.terms[0][0] else whole


def symbol_of(text: str) -> str | None:
    """Return the name of the symbol of torch that is the whole text; None if it is no lone symbol."""
    match = re.fullmatch(r"(?:Symbol\('(\w+)'[^()]*\)|([A-Za-z_]\w*))", text.strip())
    return (match[1] or match[2]) if match else None


def _tokens(text: str) -> list[str] | None:
    if len(text) > _MAX_TEXT:
        return None
    found: list[str] = []
    at = 0
    text = text.strip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None or len(found) >= _MAX_TOKENS:
            return None
        found.append(match[1])
        at = match.end()
    return found


class _Reader:
    def __init__(self, tokens: list[str], names: Mapping[str, str]) -> None:
        self.tokens, self.names, self.at = tokens, names, 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if not token or (wanted and token != wanted):
            raise _NoPolynomialError
        self.at += 1
        return token

    def sum(self, depth: int) -> Polynomial:
        total = self.product(depth)
        while self.peek() in {"+", "-"}:
            sign = 1 if self.take() == "+" else -1
            total = _bounded(total + self.product(depth) * sign)
        return total

    def product(self, depth: int) -> Polynomial:
        total = self.power(depth)
        while self.peek() == "*":
            self.take()
            total = _bounded(total * self.power(depth))
        return total

    def power(self, depth: int) -> Polynomial:
        base = self.atom(depth)
        if self.peek() != "**":
            return base
        self.take()
        return _power(base, _integer(self.take()))

    def atom(self, depth: int) -> Polynomial:
        if depth > _MAX_DEPTH:
            raise _NoPolynomialError
        token = self.take()
        if token == "-":
            return self.atom(depth + 1) * -1
        if token == "(":
            inner = self.sum(depth + 1)
            self.take(")")
            return inner
        if token.isdigit():
            return Polynomial.of(_integer(token))
        if not token.isidentifier():
            raise _NoPolynomialError
        return self.call(token, depth) if self.peek() == "(" else self.symbol(token)

    def symbol(self, name: str) -> Polynomial:
        if name not in self.names:
            raise _NoPolynomialError
        return symbol(self.names[name])

    def call(self, function: str, depth: int) -> Polynomial:
        self.take("(")
        if function == "Symbol":
            name = self.take().strip("'")
            while self.take() != ")":
                pass
            return self.symbol(name)
        parts = [self.sum(depth + 1)]
        while self.peek() == ",":
            self.take()
            parts.append(self.sum(depth + 1))
        self.take(")")
        return _apply(function, parts)


def _apply(function: str, parts: list[Polynomial]) -> Polynomial:
    if function == "Integer" and len(parts) == 1:
        return parts[0]
    if function == "Pow" and len(parts) == 2:
        exponent = dict(parts[1].terms)
        if exponent.keys() == {()}:
            return _power(parts[0], exponent[()])
        raise _NoPolynomialError
    if function not in {"Add", "Mul"}:
        raise _NoPolynomialError
    total = parts[0]
    for part in parts[1:]:
        total = _bounded(total + part if function == "Add" else total * part)
    return total


def _power(base: Polynomial, exponent: int) -> Polynomial:
    if not 0 < exponent <= _MAX_DEGREE:
        raise _NoPolynomialError
    total = base
    for _ in range(exponent - 1):
        total = _bounded(total * base)
    return total


def _integer(token: str) -> int:
    if not token.isdigit() or not token.isascii() or len(token) > 19:
        raise _NoPolynomialError
    return int(token)


def _bounded(value: Polynomial) -> Polynomial:
    terms = value.terms
    if len(terms) > _MAX_TERMS or any(len(names) > _MAX_DEGREE or abs(n) > _MAX_NUMBER for names, n in terms):
        raise _NoPolynomialError
    return value
