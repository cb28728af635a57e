"""What can go wrong, as values with stable codes.

```text
PlannerError
├── ModelError        the model file or its graph
├── LayoutError       a layout, a mesh or a sharding of a tensor
├── RuleError         an operator's rule or a strategy on it
├── DocumentError     a plan file
├── ExportError       a plan that an exporter can't write
├── ScheduleError     a pipeline schedule
└── ProofError        a proof that could not be run
```

Every error says what is wrong, with which values, and the remedy. `code` is stable: doors turn it into an exit code
or an HTTP problem document, and `docs/reference/errors.md` explains it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from unicodedata import combining, east_asian_width

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One finding about a plan, a model or a layout.

    Parameters
    ----------
    code
        Stable dotted identifier, e.g. `layout.axis-reused`.
    severity
        `error` stops the path, `warning` and `note` do not.
    subject
        The node, parameter, axis or file that it is about; empty if it is about the whole.
    message
        One sentence: what, with which values.
    hint
        The remedy, as one sentence; may be empty.
    """

    code: str
    severity: Severity = "error"
    subject: str = ""
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a text that somebody wrote something is wrong: characters `start … stop-1`, or the end."""

    text: str
    start: int
    stop: int

    def lines(self, width: int = 72) -> tuple[str, str]:
        """Return the text and a line with carets under the place; what is far from it is left out."""
        text = "".join(sign if sign.isprintable() else " " for sign in self.text)
        first = max(0, self.start - width // 2) if len(text) > width else 0
        shown = text[first : first + width]
        before = ("…" if first else "") + text[first : self.start]
        marked = max(1, min(self.stop, first + width) - self.start)
        return (
            ("…" if first else "") + shown + ("…" if first + width < len(text) else ""),
            " " * sum(_columns(sign) for sign in before) + "^" * marked,
        )


class PlannerError(Exception):
    """Base of all errors that a user can cause; carries one `Diagnostic`, and a `Place` if a text was read."""

    def __init__(
        self, code: str, message: str, hint: str = "", *, subject: str = "", place: Place | None = None
    ) -> None:
        self.diagnostic = Diagnostic(code=code, message=message, hint=hint, subject=subject)
        self.place = place
        super().__init__(str(self.diagnostic))

    @property
    def code(self) -> str:
        """The stable code of the error."""
        return self.diagnostic.code


class ModelError(PlannerError):
    """A model file or graph is not usable."""


class LayoutError(PlannerError):
    """A layout, mesh or sharding of a tensor is not legal."""


class RuleError(PlannerError):
    """A strategy is not an instance of its operator's rule."""


class DocumentError(PlannerError):
    """A plan file can't be read."""


class ExportError(PlannerError):
    """A plan holds a decision that the exporter can't write."""


class ScheduleError(PlannerError):
    """A pipeline schedule is not possible, or its text can't be read."""


class ProofError(PlannerError):
    """A proof could not be run."""


def _columns(sign: str) -> int:
    """Return how many columns of a terminal a sign takes."""
    return 0 if combining(sign) else 2 if east_asian_width(sign) in "WF" else 1
