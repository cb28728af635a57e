"""Schedules as text: the CSV that `torch.distributed.pipelining` reads and writes, a row a rank, `0F0,0F1,,0B0`.

Empty cells are bubbles there; here they say nothing, since times follow from the simulation.
"""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict

from ..core.schedule import Action, Cell, Chain, Schedule
from ..errors import ScheduleError

MAX_CELLS = 1_000_000
_PAIR = re.compile(r"\(([^;()]*);([^;()]*)\)OVERLAP_F_B")
# What torch adds when it lowers a schedule: it follows from the rest.
_LOWERED = re.compile(r"\d+(?:UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)\d*")


def write_cell(cell: Cell) -> str:
    """Return a cell as torch writes it."""
    return str(cell[0]) if len(cell) == 1 else f"({';'.join(map(str, cell))})OVERLAP_F_B"


def write_csv(schedule: Schedule) -> str:
    """Return the schedule as torch's CSV, one row a rank, without bubbles."""
    return "".join(",".join(map(write_cell, order)) + "\n" for order in schedule.orders)


def read_csv(text: str, name: str = "custom") -> Schedule:
    """Read torch's CSV; placement and chains follow from what the ranks run.

    Raises
    ------
    ScheduleError
        `schedule.action` for a cell that is none, `schedule.size` for more than a million cells, `schedule.placement`
        where a stage runs on two ranks, `schedule.empty` where nothing runs.
    """
    if text.count(",") + text.count("\n") > MAX_CELLS:
        raise ScheduleError("schedule.size", f"A schedule of more than {MAX_CELLS:,} cells is not read.")
    orders = tuple(tuple(_read_row(row)) for row in csv.reader(io.StringIO(text)) if row)
    places: dict[int, int] = {}
    micros: dict[int, set[int]] = defaultdict(set)
    for rank, order in enumerate(orders):
        for action in (action for cell in order for action in cell):
            if places.setdefault(action.stage, rank) != rank:
                raise ScheduleError(
                    "schedule.placement",
                    f"Stage {action.stage} runs on rank {places[action.stage]} and on rank {rank}.",
                    "Keep each stage on one rank.",
                )
            micros[action.stage].add(action.microbatch)
    if not places or sorted(places) != list(range(len(places))):
        raise ScheduleError(
            "schedule.empty",
            f"The stages {', '.join(map(str, sorted(places))) or '(none)'} are not numbered from 0 without a gap.",
            "Write at least one action for every stage.",
        )
    return Schedule(
        name=name, placement=tuple(places[stage] for stage in sorted(places)), chains=_chains(micros), orders=orders
    )


def _read_row(row: list[str]) -> list[Cell]:
    cells: list[Cell] = []
    for text in row:
        cell = text.strip()
        if not cell or _LOWERED.fullmatch(cell):
            continue
        pair = _PAIR.fullmatch(cell)
        cells.append((Action.parse(pair[1]), Action.parse(pair[2])) if pair else (Action.parse(cell),))
    return cells


def _chains(micros: dict[int, set[int]]) -> tuple[Chain, ...]:
    """Return a chain for every set of microbatches that go through the same stages."""
    found: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for stage, numbers in sorted(micros.items()):
        found[tuple(sorted(numbers))].append(stage)
    return tuple(Chain(stages=tuple(stages), microbatches=numbers) for numbers, stages in found.items())
