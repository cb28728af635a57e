"""A pipeline whose parts all cost the same: what a person asks for who wants to see a schedule, without a model."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..core.timeline import StageTimes, Timeline
from ..errors import PlannerError, ScheduleError
from .automatic import automatic
from .bound import lower_bound
from .simulate import simulate
from .table import SCHEDULES

AUTOMATIC = "automatic"
MAX_ACTIONS = 200_000
"""More are refused: nobody reads them, and they would take long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualParts:
    """A pipeline whose parts all cost the same.

    Parameters
    ----------
    per_rank
        Parts of the model on each rank; 0 for what the schedule needs.
    forward, backward_input, backward_weight, send
        Seconds, or any other unit, of what one rank does for a microbatch, all its parts together, and of one message.
    keep
        Microbatches that a rank has room for; 0 for any number. Only the automatic schedule heeds it.
    objective
        What the automatic schedule makes small: `makespan` or `span`.
    """

    name: str
    ranks: int
    microbatches: int
    per_rank: int
    forward: float
    backward_input: float
    backward_weight: float
    send: float
    keep: float
    objective: str = "makespan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """A timeline, with the least that any order could take; `note` says how good an automatic one is."""

    timeline: Timeline
    bound: float
    note: str = ""


def equal_parts(asked: EqualParts) -> Simulated:
    """Return the timeline.

    Raises
    ------
    ScheduleError
        `schedule.unknown`, `schedule.too-large`, or what the schedule refuses.
    """
    if asked.name not in {AUTOMATIC, *SCHEDULES}:
        known = {alias: name for name, definition in SCHEDULES.items() for alias in definition.aliases}
        if asked.name not in known:
            raise ScheduleError(
                "schedule.unknown",
                f"There is no schedule {asked.name!r}.",
                f"Use one of {', '.join([*SCHEDULES, AUTOMATIC])}.",
                subject=asked.name,
            )
        return equal_parts(replace(asked, name=known[asked.name]))
    actions = 3 * asked.ranks * max(1, asked.per_rank) * asked.microbatches
    if actions > MAX_ACTIONS:
        raise ScheduleError(
            "schedule.too-large",
            f"{asked.ranks} ranks with {asked.microbatches} microbatches run {actions:,} actions, "
            f"more than the {MAX_ACTIONS:,} that are drawn.",
            "Use fewer ranks or microbatches: the picture of a few rounds is the same.",
        )
    if asked.name == AUTOMATIC:
        return _automatic(asked)
    schedule = SCHEDULES[asked.name].build(asked.ranks, asked.microbatches, asked.per_rank)
    times = _times(asked, len(schedule.placement), schedule.parts if len(schedule.chains) == 1 else asked.ranks)
    return Simulated(timeline=simulate(schedule, times), bound=lower_bound(schedule, times))


def _automatic(asked: EqualParts) -> Simulated:
    """Return the best order on the plain placement, of all that is known and found there."""
    built = []
    for definition in SCHEDULES.values():
        try:
            built.append(definition.build(asked.ranks, asked.microbatches, asked.per_rank or 1))
        except PlannerError:
            continue
    placement = SCHEDULES["looped-bfs"].build(asked.ranks, asked.microbatches, asked.per_rank or 1).placement
    candidates = tuple(s for s in built if s.placement == placement and len(s.chains) == 1)
    times = _times(asked, len(placement), len(placement))
    room = asked.keep or float("inf")
    best = automatic(candidates, times, (room,) * asked.ranks, objective=asked.objective)
    how = "the best order there is" if best.exact else f"at most {best.gap:.1%} above the best order"
    return Simulated(timeline=best.timeline, bound=best.bound, note=f"Found from {best.start}; {how}.")


def _times(asked: EqualParts, stages: int, parts: int) -> tuple[StageTimes, ...]:
    share = asked.ranks / parts
    one = StageTimes(
        forward=asked.forward * share,
        backward_input=asked.backward_input * share,
        backward_weight=asked.backward_weight * share,
        send_forward=asked.send,
        send_backward=asked.send,
        activation=share,
        weight_gradient=share,
    )
    return (one,) * stages
