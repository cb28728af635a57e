"""The best order that can be found for given stage times under a memory cap, with what is known about how good it is.

Candidates are every named schedule on the same placement and orders made by rules; the best is then improved by moving
passes that its critical path waits for. A small pipeline is solved exactly. For the others the gap to a lower
bound is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

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
    seconds
        What was made small: the makespan, or the longest span of a rank.
    bound
        Seconds that no order can go below; `seconds` itself where the search was exact.
    start
        Name of the schedule that it was improved from.
    """

    timeline: Timeline
    seconds: float
    bound: float
    exact: bool
    start: str

    @property
    def gap(self) -> float:
        """How much longer it is than the bound, as a share of the bound."""
        return 0.0 if self.exact else self.seconds / self.bound - 1


def _longest_span(timeline: Timeline) -> float:
    """Return the longest time from a rank's first pass to its last."""
    passes = (timeline.compute(rank) for rank in range(timeline.schedule.ranks))
    return max(order[-1].stop - order[0].start for order in passes if order)


OBJECTIVES: Mapping[str, Callable[[Timeline], float]] = MappingProxyType(
    {"makespan": lambda timeline: timeline.makespan, "span": _longest_span}
)
"""What an order may be the best of. The span of a rank is what a step takes where the next one starts without waiting
for all ranks (Qi et al., arXiv 2401.10241, section 4)."""


def automatic(
    candidates: tuple[Schedule, ...], times: tuple[StageTimes, ...], caps: tuple[float, ...], effort: int = EFFORT,
    objective: str = "makespan",
) -> Best:  # fmt: skip
    """Return the best order of the stages.

    Parameters
    ----------
    candidates
        Schedules of one placement and number of microbatches, of one chain each; the answer is no worse than any of
        them that fits.
    caps
        Bytes that each rank may hold.
    objective
        A key of `OBJECTIVES`. Only the makespan is minimised exactly.

    Raises
    ------
    ScheduleError
        `schedule.memory` if no order fits; `schedule.objective`.
    """
    if objective not in OBJECTIVES:
        raise ScheduleError(
            "schedule.objective", f"There is no objective {objective!r}.", f"Use {' or '.join(OBJECTIVES)}."
        )
    measure = OBJECTIVES[objective]
    shape = candidates[0]
    tried = [_fitting(schedule, times, caps) for schedule in candidates]
    for rule in RULES:
        orders = greedy_orders(shape, times, caps, rule)
        if orders is not None:
            tried.append(_fitting(_with(shape, orders, "rules"), times, caps))
    found = [timeline for timeline in tried if timeline is not None]
    small = objective == "makespan" and state_count(shape) <= MAX_STATES
    best = min(found, key=measure, default=None)
    start = "" if best is None else best.schedule.name
    if small:
        known = float("inf") if best is None else best.makespan
        orders = exact_orders(shape, times, caps, known)
        if orders is not None:
            best = simulate(_with(shape, orders, "automatic"), times)
    if best is None:
        raise _no_room(shape, times, caps)
    if not small:
        best = _improved(best, caps, effort, measure, _bound(shape, times, objective))
    best = replace(best, schedule=replace(best.schedule, name="automatic"))
    bound = best.makespan if small else _bound(shape, times, objective)
    return Best(timeline=best, seconds=measure(best), bound=bound, exact=small, start=start)


def _bound(shape: Schedule, times: tuple[StageTimes, ...], objective: str) -> float:
    if objective == "makespan":
        return lower_bound(shape, times)
    # A rank that never waits; each stage is on one rank.
    works = [0.0] * shape.ranks
    for chain in shape.chains:
        for stage in chain.stages:
            works[shape.placement[stage]] += len(chain.microbatches) * (times[stage].work + times[stage].recompute)
    return max(works)


def _fitting(schedule: Schedule, times: tuple[StageTimes, ...], caps: tuple[float, ...]) -> Timeline | None:
    timeline = simulate(schedule, times)
    fits = all(timeline.peak_memory(rank) <= cap * (1 + 1e-12) for rank, cap in enumerate(caps))
    return timeline if fits else None


def _with(schedule: Schedule, orders: tuple[tuple[Action, ...], ...], name: str) -> Schedule:
    return replace(schedule, name=name, orders=tuple(tuple((action,) for action in order) for order in orders))


def _improved(
    best: Timeline, caps: tuple[float, ...], effort: int, measure: Callable[[Timeline], float], bound: float
) -> Timeline:
    """Move passes of the critical path before their neighbours for as long as it helps and effort is left."""
    size = sum(map(len, best.schedule.orders))
    while effort > 0 and measure(best) > bound:
        for schedule in _moves(best):
            effort -= size
            if effort <= 0:
                return best
            try:
                found = _fitting(schedule, best.times, caps)
            except ScheduleError:
                continue
            if found is not None and measure(found) < measure(best) * (1 - 1e-12):
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
