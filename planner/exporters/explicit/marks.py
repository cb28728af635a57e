"""Spans of lines in a text that is being put together, with the ids of what they stand for.

A writer knows what it writes; the number of the line is known only when all that comes before it is written. So a span
counts from the beginning of the text that it lies in, and is moved when that text is put into a longer one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

Ids = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Lines `first` to `last`, from 0, and the ids of the view's nodes and edges that they stand for."""

    first: int
    last: int
    nodes: Ids = ()
    edges: Ids = ()


def shifted(spans: Iterable[Span], by: int) -> tuple[Span, ...]:
    """Return the spans in a text that has `by` more lines before them."""
    return tuple(replace(span, first=span.first + by, last=span.last + by) for span in spans)


def joined(some: tuple[Span, ...], others: tuple[Span, ...]) -> tuple[Span, ...]:
    """Return the spans of a text that stands for two things: each with the ids of both.

    Parameters
    ----------
    others
        The spans of the same statements, in the same order; where their lines are counted from does not matter.
    """
    return tuple(
        replace(a, nodes=_both(a.nodes, b.nodes), edges=_both(a.edges, b.edges))
        for a, b in zip(some, others, strict=True)
    )


def line_count(texts: Iterable[str]) -> int:
    """Return how many lines texts take that are joined by newlines."""
    return sum(text.count("\n") + 1 for text in texts)


def update_spans(lines: Sequence[str], edges: Sequence[str]) -> Iterator[Span]:
    """Yield where the updates of a statement stand, whose edges are given in the order of the text."""
    waiting = iter(edges)
    for first, line in enumerate(lines):
        here = tuple(edge for _, edge in zip(re.finditer(r'": Update\(', line), waiting, strict=False))
        if not here:
            continue
        indent = len(line) - len(line.lstrip())
        rest = range(first + 1, len(lines)) if line.endswith("(") else ()
        ends = (n for n in rest if len(lines[n]) - len(lines[n].lstrip()) <= indent)
        yield Span(first=first, last=next(ends, first), edges=here)


def _both(some: Ids, others: Ids) -> Ids:
    return tuple(dict.fromkeys((*some, *others)))
