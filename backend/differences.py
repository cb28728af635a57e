"""What differs between two bundles, file by file, as ranges of lines."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import SequenceMatcher

from .schemas import DiffRange, FileDiff

AROUND = 3
"""Equal lines that are told around a change."""
LONG = 4000
"""Lines of a file from which on common lines are no anchors: matching each with each would take seconds."""


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[FileDiff]:
    """Return the files that differ, in the order of their paths."""
    texts = ((path, before.get(path), after.get(path)) for path in sorted(before.keys() | after.keys()))
    return [FileDiff(path=path, before=old, after=new, hunks=hunks(old, new)) for path, old, new in texts if old != new]


def hunks(before: str | None, after: str | None) -> list[list[DiffRange]]:
    """Return what changed between two texts, each change with the lines around it; None is a text without lines."""
    old, new = _lines(before), _lines(after)
    matcher = SequenceMatcher(None, old, new, autojunk=max(len(old), len(new)) > LONG)
    return [
        [DiffRange(change=change, before=(i, j), after=(k, n)) for change, i, j, k, n in group]
        for group in matcher.get_grouped_opcodes(AROUND)
    ]


def _lines(text: str | None) -> list[str]:
    """Return the lines as the page numbers them: split at newlines alone, one that ends the text ends its last line."""
    return [] if not text else text.removesuffix("\n").split("\n")
