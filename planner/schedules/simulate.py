"""The one engine that times a schedule: every rank works through its order as soon as what it needs is there.

- A forward needs the forward of the stage before, a backward the backward of the stage after it (or its own forward, on
  the last stage); a weight gradient needs its own input gradient.
- What another rank needs is sent when it is made. Messages of a direction between two ranks go one after the other,
  beside the compute of both.
- The two passes of an overlapped pair start together and take the sum of their times: what hides behind them is
  their communication.
- The gradients of a stage are reduced beside the compute as soon as its last backward is done; the optimizer waits for
  all reductions of its rank.

Work grows with the number of actions; nothing is searched. What waits for what is the same whatever the times, so it is
worked out once (`Course`), for as many times of the stages as are asked about.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ..core.schedule import KINDS, Action, Cell, Schedule
from ..core.timeline import Span, StageTimes, Timeline
from ..errors import ScheduleError
from .links import Key, Links, links, provides


def simulate(schedule: Schedule, times: tuple[StageTimes, ...]) -> Timeline:
    """Return when everything runs.

    Parameters
    ----------
    times
        What each stage costs.

    Raises
    ------
    ScheduleError
        `schedule.times` if the stages are not as many; `schedule.deadlock` if ranks wait for each other, with the
        cycle; `schedule.missing-action` if they wait for what no rank runs.
    """
    return course(schedule).timeline(times)


def seconds(times: StageTimes, kind: str) -> float:
    """Return how long a pass takes; the first backward pass repeats the forward where that is asked for."""
    if kind == "F":
        return times.forward
    if kind == "W":
        return times.backward_weight
    return times.recompute + times.backward_input + (times.backward_weight if kind == "B" else 0.0)


@dataclass(frozen=True, slots=True)
class _Step:
    """One cell in the course: the slots that it waits for and fills, and its messages (channel, action, slot there)."""

    rank: int
    cell: Cell
    needs: tuple[int, ...]
    gives: tuple[int, ...]
    sends: tuple[tuple[int, Action, int], ...]


class Course:
    """The cells of a schedule in an order in which each finds what it waits for, whatever the times.

    Raises
    ------
    ScheduleError
        `schedule.deadlock`, `schedule.missing-action`.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self._slots: dict[tuple[int, Key], int] = {}
        self._channels: dict[tuple[int, int, str], int] = {}
        self._steps = tuple(_Order(schedule, links(schedule)).steps(self._slots, self._channels))

    def timeline(self, times: tuple[StageTimes, ...]) -> Timeline:
        """Return when everything runs; raises `schedule.times` if the stages are not as many."""
        schedule = self.schedule
        if len(times) != len(schedule.placement):
            raise ScheduleError(
                "schedule.times",
                f"The schedule has {len(schedule.placement)} stages, the times are for {len(times)}.",
                "Give the times of every stage.",
            )
        passes: list[list[Span]] = [[] for _ in schedule.orders]
        messages: list[list[Span]] = [[] for _ in schedule.orders]
        for step, start, stop, sent in self._run(times):
            rank = step.rank
            passes[rank].append(Span(rank=rank, stream="compute", actions=step.cell, start=start, stop=stop))
            for (_, action, _), (begin, end) in zip(step.sends, sent, strict=True):
                messages[rank].append(Span(rank=rank, stream=_stream(action), actions=(action,), start=begin, stop=end))
        ranks = range(schedule.ranks)
        ends = (_ending(schedule, times, r, _ended(passes[r]), passes[r][-1].stop if passes[r] else 0.0) for r in ranks)
        return Timeline(
            schedule=schedule,
            times=times,
            spans=tuple((*passes[r], *messages[r], *end) for r, end in zip(ranks, ends, strict=True)),
            memory=tuple(tuple(_memory(schedule, times, r, passes[r])) for r in ranks),
        )

    def length(self, times: tuple[StageTimes, ...]) -> float:
        """Return the seconds to the end of the last pass."""
        return max(stop for _, _, stop, _ in self._run(times))

    def makespan(self, times: tuple[StageTimes, ...]) -> float:
        """Return the seconds to the end of the last span, reductions and optimizer with it."""
        schedule, latest = self.schedule, 0.0
        last, ended = [0.0] * schedule.ranks, [dict[int, float]() for _ in schedule.orders]
        # Messages are over before the passes that wait for them.
        for step, _, stop, _ in self._run(times):
            last[step.rank] = stop
            latest = max(latest, stop)
            ended[step.rank].update((action.stage, stop) for action in step.cell if action.kind in "BW")
        ending = (_ending(schedule, times, rank, ended[rank], last[rank]) for rank in range(schedule.ranks))
        return max([latest, *(span.stop for spans in ending for span in spans)])

    def _run(self, times: tuple[StageTimes, ...]) -> Iterator[tuple[_Step, float, float, list[tuple[float, float]]]]:
        """Yield every cell with its start and stop, and those of its messages."""
        takes = [{kind: seconds(cost, kind) for kind in KINDS} for cost in times]
        free = [0.0] * self.schedule.ranks
        ready, channels = [0.0] * len(self._slots), [0.0] * len(self._channels)
        for step in self._steps:
            start = free[step.rank]
            for slot in step.needs:
                start = max(start, ready[slot])
            stop = start + sum([takes[action.stage][action.kind] for action in step.cell])
            free[step.rank] = stop
            for slot in step.gives:
                ready[slot] = stop
            sent = []
            for channel, action, slot in step.sends:
                cost = times[action.stage]
                begin = max(stop, channels[channel])
                end = begin + (cost.send_forward if action.kind == "F" else cost.send_backward)
                channels[channel] = ready[slot] = end
                sent.append((begin, end))
            yield step, start, stop, sent


@lru_cache(maxsize=32)
def course(schedule: Schedule) -> Course:
    """Return the course of a schedule; an edit of a plan mostly asks about the schedule of the one before."""
    return Course(schedule)


def _stream(action: Action) -> str:
    return "forward" if action.kind == "F" else "backward"


@dataclass(slots=True)
class _Order:
    """Where every rank stands while the course is laid out, and what is where."""

    schedule: Schedule
    links: Links
    there: set[tuple[int, Key]] = field(default_factory=set)
    waiting: dict[tuple[int, Key], int] = field(default_factory=dict)
    places: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.places = [0] * self.schedule.ranks

    def steps(self, slots: dict[tuple[int, Key], int], channels: dict[tuple[int, int, str], int]) -> Iterator[_Step]:
        """Work through all orders; a rank that has to wait is taken up again when what it waits for is there."""
        todo = list(range(self.schedule.ranks))
        while todo:
            rank = todo.pop()
            order = self.schedule.orders[rank]
            while self.places[rank] < len(order):
                cell = order[self.places[rank]]
                missing = self.missing(rank, cell)
                if missing is not None:
                    self.waiting[(rank, missing)] = rank
                    break
                yield self._step(rank, cell, slots, channels, todo)
                self.places[rank] += 1
        for rank, order in enumerate(self.schedule.orders):
            if self.places[rank] < len(order):
                raise _stuck(self, rank)

    def missing(self, rank: int, cell: Cell) -> Key | None:
        """Return what a cell still waits for on its rank."""
        for action in cell:
            key = self.links.needs(action)
            if key is not None and (rank, key) not in self.there:
                return key
        return None

    def _step(
        self, rank: int, cell: Cell, slots: dict[tuple[int, Key], int],
        channels: dict[tuple[int, int, str], int], todo: list[int],
    ) -> _Step:  # fmt: skip
        placement = self.schedule.placement
        needs = tuple(slots[rank, key] for action in cell if (key := self.links.needs(action)) is not None)
        gives, sends = [], []
        for action in cell:
            if action.kind == "W":
                continue
            key = provides(action)
            gives.append(slots.setdefault((rank, key), len(slots)))
            self._arrive((rank, key), todo)
            reader = self.links.reader(action)
            if reader is None or placement[reader] == rank:
                continue
            to = placement[reader]
            channel = channels.setdefault((rank, to, _stream(action)), len(channels))
            sends.append((channel, action, slots.setdefault((to, key), len(slots))))
            self._arrive((to, key), todo)
        return _Step(rank, cell, needs, tuple(gives), tuple(sends))

    def _arrive(self, place: tuple[int, Key], todo: list[int]) -> None:
        self.there.add(place)
        waiter = self.waiting.pop(place, None)
        if waiter is not None:
            todo.append(waiter)


def _ended(passes: list[Span]) -> dict[int, float]:
    """Return stage → when its last backward is done."""
    return {action.stage: span.stop for span in passes for action in span.actions if action.kind in "BW"}


def _ending(
    schedule: Schedule, times: tuple[StageTimes, ...], rank: int, ended: dict[int, float], last: float
) -> Iterator[Span]:
    """Yield the reductions of a rank in the order in which its stages are done, and its optimizer.

    Parameters
    ----------
    ended
        Stage → when its last backward is done.
    last
        When the last pass of the rank is done.
    """
    free = 0.0
    for stage, end in sorted(ended.items(), key=lambda item: item[1]):
        if times[stage].reduce:
            start = max(free, end)
            free = start + times[stage].reduce
            yield Span(rank=rank, stream="reduce", actions=(), start=start, stop=free, stage=stage)
    update = sum(times[stage].optimizer for stage in schedule.stages_of(rank))
    if update:
        start = max(free, last)
        yield Span(rank=rank, stream="compute", actions=(), start=start, stop=start + update)


def _memory(
    schedule: Schedule, times: tuple[StageTimes, ...], rank: int, passes: list[Span]
) -> Iterator[tuple[float, float]]:
    """Yield when a rank's memory changes: a forward takes its room when it starts, a backward frees it when it ends."""
    held = sum(times[stage].resident for stage in schedule.stages_of(rank))
    yield 0.0, held
    for span in passes:
        taken = sum(times[a.stage].activation for a in span.actions if a.kind == "F")
        if taken:
            held += taken
            yield span.start, held
        freed = sum(_freed(times[a.stage], a.kind) for a in span.actions)
        if freed:
            held -= freed
            yield span.stop, held


def _freed(times: StageTimes, kind: str) -> float:
    return {
        "F": 0.0,
        "I": times.activation - times.weight_gradient,
        "W": times.weight_gradient,
        "B": times.activation,
    }[kind]


def _stuck(engine: _Order, rank: int) -> ScheduleError:
    """Follow who waits for whom until a rank comes up again, or one waits for what no rank runs."""
    makers = {
        provides(action): (maker, action)
        for maker, order in enumerate(engine.schedule.orders)
        for cell in order[engine.places[maker] :]
        for action in cell
        if action.kind != "W"
    }
    seen: list[int] = []
    waits: list[str] = []
    while rank not in seen:
        cell = engine.schedule.orders[rank][engine.places[rank]]
        key = engine.missing(rank, cell)
        assert key is not None, cell
        head = "+".join(map(str, cell))
        if key not in makers:
            return ScheduleError(
                "schedule.missing-action",
                f"Rank {rank} waits at {head} for {Action(*key)}, which no rank runs.",
                "Add the action to the rank of its stage.",
            )
        seen.append(rank)
        maker, action = makers[key]
        waits.append(f"rank {rank} at {head} waits for {action} of rank {maker}")
        rank = maker
    return ScheduleError(
        "schedule.deadlock",
        f"The schedule can't go on: {'; '.join(waits[seen.index(rank) :])}.",
        "Move one of the awaited actions before the one that its rank stands at.",
    )
