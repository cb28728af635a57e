"""Shows on a terminal how far an import is, in one line that is gone when it is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from ..importers.watch import NOBODY, Watch


@contextmanager
def watched() -> Iterator[Watch]:
    """Give a watch that writes on stderr if somebody looks at it."""
    if not sys.stderr.isatty():
        yield NOBODY
        return
    longest = 0

    def stage(done: float, text: str) -> None:
        nonlocal longest
        line = f"{done:4.0%} {text} …"
        longest = max(longest, len(line))
        typer.echo(f"\r{line:<{longest}}", err=True, nl=False)

    try:
        yield Watch(stage=stage)
    finally:
        typer.echo(f"\r{' ' * longest}\r", err=True, nl=False)
