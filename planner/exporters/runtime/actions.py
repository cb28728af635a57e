"""The action table of a schedule: what a rank runs, in which order, read from the text that torch writes."""

from __future__ import annotations

import re
from dataclasses import dataclass

_PAIR = re.compile(r"\(([^;()]*);([^;()]*)\)OVERLAP_F_B")
_ACTION = re.compile(r"(\d+)([FIWB])(\d+)")


@dataclass(frozen=True)
class Action:
    """One pass of a microbatch through a stage.

    `kind` is `F` (forward), `B` (backward), or a half of it: `I` (gradients of inputs), `W` (of weights).
    """

    stage: int
    kind: str
    microbatch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.microbatch}"


def read_row(row: str) -> list[tuple[Action, ...]]:
    """Return a rank's cells; one of two actions, `(0F3;7B0)OVERLAP_F_B`, is a forward that runs beside a backward.

    Raises
    ------
    ValueError
        For any other text.
    """
    cells: list[tuple[Action, ...]] = []
    for text in row.split(","):
        cell = text.strip()
        if cell:
            pair = _PAIR.fullmatch(cell)
            cells.append(tuple(_action(part) for part in (pair.groups() if pair else (cell,))))
    return cells


def _action(text: str) -> Action:
    found = _ACTION.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not an action: write stage, kind and microbatch, such as 2F0")
    return Action(int(found[1]), found[2], int(found[3]))
