"""The best order that can be found for given stage times under a memory cap, with what is known about how good it is.

Candidates are every named schedule on the same placement and orders made by rules; the best is then improved by moving
passes that its critical path waits for. A small pipeline is solved exactly. For the others the gap to a lower
bound is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..core.schedule import Action, Cell, Schedule
from ..core.timeline import StageTimes, Timeline
from ..errors import ScheduleError
from .bound import lower_bound
from .exact import MAX_STATES, exact_orders, state_count
from .greedy import RULES, greedy_orders
from .measures import critical_path
from .simulate import simulate

# What an improvement may cost: actions simulated, all tries together (about two seconds).
EFFORT = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Best:
    """The best schedule found.

    Parameters
    ----------
    bound
        Seconds that no order can go below; the makespan itself where the search was exact.
    start
        Name of the schedule that it was improved from.
    """

    timeline: Timeline
    bound: float
    exact: bool
    start: str

    @property
    def gap(self) -> float:
        """How much longer it is than the bound, as a share of the bound."""
        return 0.0 if self.exact else self.timeline.makespan / self.bound - 1


def automatic(
    candidates: tuple[Schedule, ...], times: tuple[StageTimes, ...], caps: tuple[float, ...], effort: int = EFFORT
) -> Best:
    """Return the best order of the stages.

    Parameters
    ----------
    candidates
        Schedules of one placement and number of microbatches, of one chain each; the answer is no worse than any of
        them that fits.
    caps
        Bytes that each rank may hold.

    Raises
    ------
    ScheduleError
        `schedule.memory` if no order fits.
    """
    shape = candidates[0]
    tried = [_fitting(schedule, times, caps) for schedule in candidates]
    for rule in RULES:
        orders = greedy_orders(shape, times, caps, rule)
        if orders is not None:
            tried.append(_fitting(_with(shape, orders, "rules"), times, caps))
    found = [timeline for timeline in tried if timeline is not None]
    small = state_count(shape) <= MAX_STATES
    best = min(found, key=lambda timeline: timeline.makespan, default=None)
    start = "" if best is None else best.schedule.name
    if small:
        known = float("inf") if best is None else best.makespan
        orders = exact_orders(shape, times, caps, known)
        if orders is not None:
            best = simulate(_with(shape, orders, "automatic"), times)
    if best is None:
        raise _no_room(shape, times, caps)
    if not small:
        best = _improved(best, caps, effort)
    best = replace(best, schedule=replace(best.schedule, name="automatic"))
    bound = best.makespan if small else lower_bound(shape, times)
    return Best(timeline=best, bound=bound, exact=small, start=start)


def _fitting(schedule: Schedule, times: tuple[StageTimes, ...], caps: tuple[float, ...]) -> Timeline | None:
    timeline = simulate(schedule, times)
    fits = all(timeline.peak_memory(rank) <= cap * (1 + 1e-12) for rank, cap in enumerate(caps))
    return timeline if fits else None


def _with(schedule: Schedule, orders: tuple[tuple[Action, ...], ...], name: str) -> Schedule:
    return replace(schedule, name=name, orders=tuple(tuple((action,) for action in order) for order in orders))


def _improved(best: Timeline, caps: tuple[float, ...], effort: int) -> Timeline:
    """Move passes of the critical path before their neighbours for as long as it helps and effort is left."""
    size = sum(map(len, best.schedule.orders))
    bound = lower_bound(best.schedule, best.times)
    while effort > 0 and best.makespan > bound:
        for schedule in _moves(best):
            effort -= size
            if effort <= 0:
                return best
            try:
                found = _fitting(schedule, best.times, caps)
            except ScheduleError:
                continue
            if found is not None and found.makespan < best.makespan * (1 - 1e-12):
                best = found
                break
        else:
            return best
    return best


def _moves(timeline: Timeline) -> Iterator[Schedule]:
    """Yield the schedule with a pass of the critical path moved before one or several passes that it waits for."""
    schedule = timeline.schedule
    for span in reversed(critical_path(timeline)):
        if span.stream != "compute":
            continue
        order = schedule.orders[span.rank]
        at = order.index(span.actions)
        for to in range(at - 1, max(-1, at - 9), -1):
            if _bound_to(order[to], span.actions):
                break
            moved = (*order[:to], order[at], *order[to:at], *order[at + 1 :])
            yield replace(schedule, orders=(*schedule.orders[: span.rank], moved, *schedule.orders[span.rank + 1 :]))


def _bound_to(before: Cell, after: Cell) -> bool:
    """Return whether the order of two cells is fixed: same microbatch of a stage, or same kind of pass."""
    return any(a.stage == b.stage and (a.microbatch == b.microbatch or a.kind == b.kind) for a in before for b in after)


def _no_room(schedule: Schedule, times: tuple[StageTimes, ...], caps: tuple[float, ...]) -> ScheduleError:
    needs = [
        sum(times[stage].resident + times[stage].activation for stage in schedule.stages_of(rank))
        for rank in range(schedule.ranks)
    ]
    rank = max(range(schedule.ranks), key=lambda r: needs[r] - caps[r])
    return ScheduleError(
        "schedule.memory",
        f"No order of {schedule.microbatches} microbatches fits: rank {rank} may hold {caps[rank]:,.0f} bytes, and one "
        f"microbatch in each of its stages takes {needs[rank]:,.0f}.",
        "Use more ranks, smaller microbatches, recompute, or a larger cap.",
    )
