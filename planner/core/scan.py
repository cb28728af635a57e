"""Reading texts that people type: layouts, meshes, surface forms. Every refusal knows its place in the text."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import LayoutError, Place


@dataclass(slots=True)
class Scanner:
    """A position in a text that is read from left to right.

    Parameters
    ----------
    what
        What the text should be, e.g. `a layout`.
    code, hint
        Of the error if it is not.
    """

    text: str
    what: str
    code: str
    hint: str
    at: int = 0

    def take(self, pattern: str) -> str | None:
        """Return what matches here, after blanks, and go behind it; None if nothing does."""
        self.blanks()
        match = re.compile(pattern).match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        return match[0]

    def need(self, pattern: str, expected: str) -> str:
        """Return what matches here, or refuse the text."""
        found = self.take(pattern)
        if found is None:
            raise self.refusal(expected)
        return found

    def blanks(self) -> None:
        """Go behind blanks."""
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def end(self, expected: str) -> None:
        """Refuse the text if there is more of it."""
        self.blanks()
        if self.at < len(self.text):
            raise self.refusal(expected)

    def refusal(self, expected: str) -> LayoutError:
        """Return the error that something else is expected here."""
        self.blanks()
        rest = self.text[self.at :]
        word = re.match(r"\w+|.", rest)
        found = f"{word[0]!r}" if word else "the end"
        stop = self.at + (len(word[0]) if word else 1)
        return LayoutError(
            self.code,
            f"{_shortened(self.text)!r} is not {self.what}: {expected} is expected in place of {found}.",
            self.hint,
            place=Place(self.text, self.at, stop),
        )


def point(error: LayoutError, text: str, occurrence: int = 0) -> LayoutError:
    """Give an error about a name the place where `text` has that name, if it does; `occurrence` counts from 0."""
    if error.place is None and error.diagnostic.subject:
        found = list(re.finditer(rf"(?<!\w){re.escape(error.diagnostic.subject)}(?!\w)", text))
        if found:
            match = found[min(occurrence, len(found) - 1)]
            error.place = Place(text, match.start(), match.end())
    return error


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else text[:199] + "…"
