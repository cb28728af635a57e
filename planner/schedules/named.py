"""Schedules by the names that people say: keys of the table, their aliases, and `automatic`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ..core.schedule import Schedule
from ..core.timeline import StageTimes, Timeline
from ..errors import PlannerError, ScheduleError
from .automatic import automatic
from .bound import lower_bound
from .definition import Pipeline, ScheduleDef
from .simulate import simulate
from .table import SCHEDULES

AUTOMATIC = "automatic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A timeline, with the least that any order could take; `note` says how good an automatic one is."""

    timeline: Timeline
    bound: float
    note: str = ""


def definition_of(name: str) -> ScheduleDef | None:
    """Return the entry of the table for a name or alias; None for the automatic schedule.

    Raises
    ------
    ScheduleError
        `schedule.unknown`.
    """
    if name == AUTOMATIC:
        return None
    known = {alias: found for found in SCHEDULES.values() for alias in found.aliases} | dict(SCHEDULES)
    if name not in known:
        raise ScheduleError(
            "schedule.unknown",
            f"There is no schedule {name!r}.",
            f"Use one of {', '.join([*SCHEDULES, AUTOMATIC])}.",
            subject=name,
        )
    return known[name]


def pipeline_of(name: str, ranks: int, microbatches: int, per_rank: int = 0) -> Pipeline:
    """Return the size of the pipeline that a schedule runs, and raise where the schedule does not exist for it."""
    definition = definition_of(name)
    if definition is not None:
        return definition.check(ranks, microbatches, per_rank)
    return Pipeline(ranks=ranks, per_rank=per_rank or 1, microbatches=microbatches)


def part_count(name: str, ranks: int, microbatches: int, per_rank: int = 0) -> int:
    """Return the number of parts that the model is cut into; raises as `pipeline_of`."""
    pipeline = pipeline_of(name, ranks, microbatches, per_rank)
    definition = definition_of(name)
    return pipeline.parts if definition is None else len(definition.chains(pipeline)[0].stages)


@lru_cache(maxsize=64)
def schedule_named(name: str, ranks: int, microbatches: int, per_rank: int = 0) -> Schedule:
    """Return the orders of a schedule; of the automatic one, which depends on times, a first candidate."""
    definition = definition_of(name)
    if definition is None:
        return candidates(ranks, microbatches, per_rank)[0]
    return definition.build(ranks, microbatches, per_rank)


def candidates(ranks: int, microbatches: int, per_rank: int = 0) -> tuple[Schedule, ...]:
    """Return the named schedules among which the automatic one begins: those of one chain on the plain placement."""
    built = []
    for definition in SCHEDULES.values():
        try:
            built.append(definition.build(ranks, microbatches, per_rank or 1))
        except PlannerError:
            continue
    placement = SCHEDULES["looped-bfs"].build(ranks, microbatches, per_rank or 1).placement
    return tuple(s for s in built if s.placement == placement and len(s.chains) == 1)


def find_order(
    starts: tuple[Schedule, ...], times: tuple[StageTimes, ...], caps: tuple[float, ...], objective: str = "makespan"
) -> Simulated:
    """Return the automatic schedule, with a sentence on how good it is.

    Raises
    ------
    ScheduleError
        `schedule.memory` where no order keeps each rank within its cap.
    """
    best = automatic(starts, times, caps, objective=objective)
    how = "the best order there is" if best.exact else f"at most {best.gap:.1%} above the best order"
    return Simulated(timeline=best.timeline, bound=best.bound, note=f"Found from {best.start}; {how}.")


def schedule_parts(
    name: str, ranks: int, microbatches: int, per_rank: int, parts: tuple[StageTimes, ...], room: float
) -> Simulated:
    """Return the timeline of a model whose parts cost different times.

    Parameters
    ----------
    parts
        What each part of the model costs, as many as `part_count` says.
    room
        Bytes that a rank has; the automatic schedule keeps to it where it can, and says so where it can't.
    """
    definition = definition_of(name)
    if definition is None:
        starts = candidates(ranks, microbatches, per_rank)
        try:
            return find_order(starts, parts, (room,) * ranks)
        except ScheduleError as problem:
            if problem.code != "schedule.memory":
                raise
            found = find_order(starts, parts, (float("inf"),) * ranks)
            return Simulated(timeline=found.timeline, bound=found.bound, note=f"No order fits the memory. {found.note}")
    schedule = schedule_named(name, ranks, microbatches, per_rank)
    times = tuple(parts[schedule.part_of(stage)] for stage in range(len(schedule.placement)))
    return Simulated(timeline=simulate(schedule, times), bound=lower_bound(schedule, times))
