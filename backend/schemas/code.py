"""Answers on exported code."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from planner.core.code import CodeMark

from .tables import Entry, Problem


class CodeForm(Entry):
    """A form of exported code; `problem` says why the plan can't be written in it, and is null if it can."""

    problem: Problem | None


class CodeFile(BaseModel):
    """A file of the exported code."""

    path: str
    text: str


class Code(BaseModel):
    """The exported code in one form."""

    form: str
    files: list[CodeFile]
    marks: list[CodeMark]


class HistoryStep(BaseModel):
    """An edit of a plan, the `back`-th from the last one on."""

    back: int
    label: str


class DiffRange(BaseModel):
    """Lines that are equal, or that were replaced, taken out or put in.

    Parameters
    ----------
    before, after
        Begin and end of the lines, from 0; empty where lines were put in or taken out.
    """

    change: Literal["equal", "replace", "delete", "insert"]
    before: tuple[int, int]
    after: tuple[int, int]


class FileDiff(BaseModel):
    """A file that differs.

    Parameters
    ----------
    before, after
        Its texts; null where there is no such file.
    hunks
        What changed, each with lines around it.
    """

    path: str
    before: str | None
    after: str | None
    hunks: list[list[DiffRange]]


class CodeDiff(BaseModel):
    """What edits changed in the exported code.

    Parameters
    ----------
    labels
        Of these edits, the last one first.
    files
        Those that differ, in the order of their paths.
    """

    form: str
    labels: list[str]
    files: list[FileDiff]
