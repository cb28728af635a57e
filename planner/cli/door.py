"""What holds for every command: how errors leave, what an exit code means, how answers are printed.

```text
0    done            1    a proof failed            2    wrong input or usage            130    interrupted
```

An error is one line on stderr, `error: ` and the sentence with its remedy; where a text was read, that text and carets
at the place are under it. With `--json` it is, besides, the object `{code, message, hint, subject}` on stdout, with a
`place` if there is one. What is nobody's input is a fault of ours and keeps its traceback.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

import typer
from typer.core import TyperGroup

from ..errors import Diagnostic, Place, PlannerError

WRONG_INPUT = 2
INTERRUPTED = 130
# typer carries the parser under names that change; its errors of usage are what BadParameter derives from.
_UsageError: Any = typer.BadParameter.__base__


class Door(TyperGroup):
    """The group of all commands, with the way in which errors leave it."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run a command and end the process with its exit code."""
        given = list(sys.argv[1:] if args is None else args)
        _survive_narrow_encodings()
        extra["standalone_mode"] = False
        try:
            code = super().main(given, *rest, **extra)
        except PlannerError as problem:
            code = _refuse(problem.diagnostic, problem.place, as_json="--json" in given)
        except _UsageError as problem:
            code = _refuse(_usage(problem), None, as_json="--json" in given)
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        sys.exit(code or 0)


def show(text: str) -> None:
    """Print an answer for people."""
    typer.echo(text, color=None if _in_colour() else False)


def show_json(value: object) -> None:
    """Print an answer for programs."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def write_text(file: str, text: str) -> None:
    """Write an answer into a file.

    Raises
    ------
    PlannerError
        `cli.not-written`.
    """
    try:
        Path(file).write_text(text, "utf-8")
    except OSError as problem:
        raise PlannerError(
            "cli.not-written", f"{file!r} can't be written: {problem.strerror or problem}.", "Name another file.",
            subject=file,
        ) from None  # fmt: skip


def warn(diagnostics: Iterable[Diagnostic]) -> None:
    """Print findings that stop nothing, where they do not mix with the answer."""
    for found in diagnostics:
        typer.echo(sentence(found), err=True)


def sentence(found: Diagnostic) -> str:
    """Return a finding as one line: how bad, what, remedy."""
    return f"{found.severity}: {' '.join(str(found).split())}"


@contextmanager
def progress(text: str) -> Iterator[None]:
    """Show on a terminal what takes long, until it is done."""
    watched = sys.stderr.isatty()
    if watched:
        typer.echo(text, err=True, nl=False)
    try:
        yield
    finally:
        if watched:
            typer.echo(f"\r{' ' * len(text)}\r", err=True, nl=False)


def heading(text: str) -> str:
    """Return a heading: bold on a terminal, plain elsewhere."""
    return typer.style(text, bold=True) if _in_colour() else text


def terminal_width() -> int | None:
    """Return the columns of the terminal; None where nobody looks and names are to stay whole."""
    return get_terminal_size().columns if sys.stdout.isatty() else None


def _in_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _refuse(found: Diagnostic, place: Place | None, *, as_json: bool) -> int:
    if as_json:
        fields = asdict(found)
        answer: dict[str, object] = {name: fields[name] for name in ("code", "message", "hint", "subject")}
        show_json(answer | ({"place": asdict(place)} if place else {}))
    warn([found])
    if place is not None:
        for line in place.lines():
            typer.echo(f"  {line}", err=True)
    return WRONG_INPUT


def _usage(problem: Any) -> Diagnostic:
    path = problem.ctx.command_path if problem.ctx else "shardwright"
    message = " ".join(problem.format_message().split())
    return Diagnostic(code="cli.usage", message=message.rstrip(".") + ".", hint=f"See {path} --help.")


def _survive_narrow_encodings() -> None:
    """Let a terminal that lacks a sign such as · show another one instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
