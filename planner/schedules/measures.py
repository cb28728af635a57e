"""What a timeline says in numbers: bubble by each of its definitions, where it comes from, the critical path.

Three definitions of the bubble circulate, for p ranks that each do `work` seconds of useful compute:

```text
of total   (p·makespan - Σ work) / (p·makespan)          share of all rank time that is idle
of useful  (p·makespan - Σ work) / Σ work                idle time for each second of work
of span    (cost - work) / cost,                         cost: the longest time from a rank's first action to its last
           on the rank with the longest span             (Qi et al., arXiv 2401.10241)
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from ..core.schedule import KINDS, Schedule
from ..core.timeline import Span, StageTimes, Timeline
from .links import links, provides
from .simulate import course, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Bubble:
    """Idle time of a pipeline as a share; see the module docstring."""

    of_total: float
    of_useful: float
    of_span: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Causes:
    """Seconds of the makespan above the ranks' mean useful work, by what brings them about.

    Parameters
    ----------
    ideal
        The schedule itself, with equal stages and free messages.
    imbalance
        Stages that differ.
    recompute
        Repeated forwards.
    communication
        Messages. The four add up to makespan minus mean work, without reductions and optimizer.
    """

    ideal: float
    imbalance: float
    recompute: float
    communication: float


def bubble(timeline: Timeline) -> Bubble:
    """Return the bubble of a timeline, reductions and optimizer left out."""
    works = _works(timeline)
    spans = [
        (passes[-1].stop - passes[0].start, work)
        for passes, work in zip(map(timeline.compute, range(len(works))), works, strict=True)
        if passes
    ]
    cost, work_there = max(spans)
    total, work = timeline.schedule.ranks * _length(timeline), sum(works)
    return Bubble(of_total=(total - work) / total, of_useful=(total - work) / work, of_span=(cost - work_there) / cost)


def causes(timeline: Timeline) -> Causes:
    """Return where the bubble comes from: the schedule is simulated again without one cause after the other."""
    schedule, times = timeline.schedule, timeline.times
    bare, way = tuple(_without(t) for t in times), course(schedule)
    ideal = way.length(_equal(bare, schedule))
    uneven = way.length(bare)
    repeated = way.length(tuple(replace(b, recompute=t.recompute) for b, t in zip(bare, times, strict=True)))
    return Causes(
        ideal=ideal - sum(_works(timeline)) / schedule.ranks,
        imbalance=uneven - ideal,
        recompute=repeated - uneven,
        communication=_length(timeline) - repeated,
    )


def _works(timeline: Timeline) -> list[float]:
    """Return the seconds of useful compute of every rank."""
    bare = [replace(times, recompute=0.0) for times in timeline.times]
    useful = [{kind: seconds(times, kind) for kind in KINDS} for times in bare]
    return [
        sum(useful[a.stage][a.kind] for span in timeline.compute(rank) for a in span.actions)
        for rank in range(timeline.schedule.ranks)
    ]


def critical_path(timeline: Timeline) -> tuple[Span, ...]:
    """Return the passes and messages that lead to the end of the last pass, each waiting for the one before it."""
    neighbours = links(timeline.schedule)
    passes = [timeline.compute(rank) for rank in range(timeline.schedule.ranks)]
    sent = {(s.stream, s.actions[0]): s for spans in timeline.spans for s in spans if s.stream in _MESSAGES}
    made = {provides(a): s for order in passes for s in order for a in s.actions if a.kind != "W"}
    earlier = {right: left for order in passes for left, right in pairwise(order)}
    earlier |= {right: left for left, right in _queues(timeline)}
    path: list[Span] = []
    at = max((order[-1] for order in passes if order), key=lambda span: span.stop, default=None)
    while at is not None:
        path.append(at)
        found = [earlier[at]] if at in earlier else []
        for action in at.actions:
            if at.stream in _MESSAGES:
                found.append(made[provides(action)])
            elif (key := neighbours.needs(action)) is not None:
                maker = made[key]
                by = next(a for a in maker.actions if provides(a) == key)
                message = sent.get(("forward" if by.kind == "F" else "backward", by))
                found.append(maker if maker.rank == at.rank or message is None else message)
        at = max(found, key=lambda span: span.stop, default=None)
    return tuple(reversed(path))


_MESSAGES = ("forward", "backward")


def _queues(timeline: Timeline) -> Iterator[tuple[Span, Span]]:
    """Yield each message with the one that goes after it between the same ranks."""
    neighbours, placement = links(timeline.schedule), timeline.schedule.placement
    last: dict[tuple[int, int | None, str], Span] = {}
    for spans in timeline.spans:
        for span in spans:
            if span.stream in _MESSAGES:
                reader = neighbours.reader(span.actions[0])
                key = (span.rank, None if reader is None else placement[reader], span.stream)
                if key in last:
                    yield last[key], span
                last[key] = span


def _length(timeline: Timeline) -> float:
    """Return the seconds to the end of the last pass."""
    passes = (timeline.compute(rank) for rank in range(timeline.schedule.ranks))
    return max(each[-1].stop for each in passes if each)


def _without(times: StageTimes) -> StageTimes:
    """Return the bare passes: no messages, no repeated forward."""
    return replace(times, send_forward=0.0, send_backward=0.0, recompute=0.0)


def _equal(times: tuple[StageTimes, ...], schedule: Schedule) -> tuple[StageTimes, ...]:
    """Return stages that all take the mean of each pass."""
    count = len(times)
    mean = StageTimes(
        forward=sum(t.forward for t in times) / count,
        backward_input=sum(t.backward_input for t in times) / count,
        backward_weight=sum(t.backward_weight for t in times) / count,
    )
    return (mean,) * len(schedule.placement)
