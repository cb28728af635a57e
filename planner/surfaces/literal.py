"""Reading Python-like text: calls, strings, numbers, tuples. Nothing is evaluated; every part knows its place."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ..core.scan import Scanner
from ..errors import LayoutError, Place

Kind = Literal["name", "text", "number", "sequence", "set", "call", "index", "keyword"]
MAX_DEPTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One part of a text.

    Parameters
    ----------
    word
        The name, the text without quotes, the digits, the keyword.
    items
        Members of a sequence or set; of a call and an index first what is called or indexed, then the arguments; the
        value of a keyword.
    source, start, stop
        The whole text and where in it the part stands.
    """

    kind: Kind
    word: str = ""
    items: tuple[Term, ...] = ()
    source: str
    start: int
    stop: int

    def refusal(self, code: str, message: str, hint: str = "", *, subject: str = "") -> LayoutError:
        """Return an error that points at this part."""
        return LayoutError(code, message, hint, subject=subject, place=Place(self.source, self.start, self.stop))

    @property
    def number(self) -> int | None:
        """The number that it is, or None."""
        return int(self.word) if self.kind == "number" else None

    @property
    def called(self) -> str:
        """Last part of the name that it calls, e.g. `P` of `jax.sharding.P(…)`; empty if it calls none."""
        if self.kind != "call" or self.items[0].kind != "name":
            return ""
        return self.items[0].word.rpartition(".")[2]

    @property
    def arguments(self) -> tuple[Term, ...]:
        """Positional arguments of a call."""
        return tuple(term for term in self.items[1:] if term.kind != "keyword")

    @property
    def keywords(self) -> dict[str, Term]:
        """Keyword arguments of a call."""
        return {term.word: term.items[0] for term in self.items[1:] if term.kind == "keyword"}

    def __str__(self) -> str:
        return self.source[self.start : self.stop]


def parse(text: str, what: str, code: str, hint: str) -> Term:
    """Return the terms of a text; several with commas between are a sequence.

    Raises
    ------
    LayoutError
        `code`, with its place.
    """
    reader = _Reader(Scanner(text, what, code, hint))
    first = reader.term(0)
    items = [first]
    comma = False
    while reader.scan.take(",") is not None:
        comma = True
        if reader.scan.take(r"$") is not None:
            break
        items.append(reader.term(0))
    reader.scan.end("',' or the end")
    if not comma:
        return first
    return Term(kind="sequence", items=tuple(items), source=text, start=first.start, stop=items[-1].stop)


@dataclass(slots=True)
class _Reader:
    scan: Scanner

    def term(self, depth: int) -> Term:
        scan = self.scan
        scan.blanks()
        start = scan.at
        if depth > MAX_DEPTH:
            raise scan.refusal("less nesting")
        if (word := scan.take(r"'[^'\\\n]*'|\"[^\"\\\n]*\"")) is not None:
            return self._made("text", start, word=word[1:-1])
        if (word := scan.take(r"-?[0-9]{1,18}(?!\w)")) is not None:
            return self._made("number", start, word=word)
        if scan.take(r"\(") is not None:
            items, comma = self._items(r"\)", "')'", depth)
            # As in Python, parentheses around one thing are just that thing.
            return items[0] if len(items) == 1 and not comma else self._made("sequence", start, items=items)
        if scan.take(r"\[") is not None:
            return self._made("sequence", start, items=self._items(r"\]", "']'", depth)[0])
        if scan.take(r"\{") is not None:
            return self._made("set", start, items=self._items(r"\}", "'}'", depth)[0])
        word = scan.need(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", "a name, a number, a string or a tuple")
        return self._calls(self._made("name", start, word=word), start, depth)

    def _calls(self, term: Term, start: int, depth: int) -> Term:
        for _ in range(MAX_DEPTH):
            if self.scan.take(r"\(") is not None:
                term = self._made("call", start, items=(term, *self._items(r"\)", "')'", depth)[0]))
            elif self.scan.take(r"\[") is not None:
                term = self._made("index", start, items=(term, *self._items(r"\]", "']'", depth)[0]))
            else:
                break
        return term

    def _items(self, close: str, shown: str, depth: int) -> tuple[tuple[Term, ...], bool]:
        items: list[Term] = []
        comma = False
        while self.scan.take(close) is None:
            if items and self.scan.take(",") is None:
                raise self.scan.refusal(f"',' or {shown}")
            comma = bool(items)
            if comma and self.scan.take(close) is not None:
                break
            items.append(self._argument(depth))
        return tuple(items), comma

    def _argument(self, depth: int) -> Term:
        scan = self.scan
        scan.blanks()
        start = scan.at
        match = re.compile(r"([A-Za-z_]\w*)\s*=").match(scan.text, start)
        if match is None:
            return self.term(depth + 1)
        scan.at = match.end()
        value = self.term(depth + 1)
        return self._made("keyword", start, word=match[1], items=(value,))

    def _made(self, kind: Kind, start: int, *, word: str = "", items: tuple[Term, ...] = ()) -> Term:
        return Term(kind=kind, word=word, items=items, source=self.scan.text, start=start, stop=self.scan.at)
