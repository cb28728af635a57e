"""The one engine that times a schedule: every rank works through its order as soon as what it needs is there.

- A forward needs the forward of the stage before, a backward the backward of the stage after it (or its own forward, on
  the last stage); a weight gradient needs its own input gradient.
- What another rank needs is sent when it is made. Messages of a direction between two ranks go one after the other,
  beside the compute of both.
- The two passes of an overlapped pair start together and take the sum of their times: what hides behind them is
  their communication.
- The gradients of a stage are reduced beside the compute as soon as its last backward is done; the optimizer waits for
  all reductions of its rank.

Work grows with the number of actions; nothing is searched.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..core.schedule import Action, Cell, Schedule
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
    if len(times) != len(schedule.placement):
        raise ScheduleError(
            "schedule.times",
            f"The schedule has {len(schedule.placement)} stages, the times are for {len(times)}.",
            "Give the times of every stage.",
        )
    engine = _Engine(schedule, times, links(schedule))
    engine.run()
    ranks = range(schedule.ranks)
    return Timeline(
        schedule=schedule,
        times=times,
        spans=tuple(
            (*engine.passes[r], *engine.messages[r], *_ending(schedule, times, r, engine.passes[r])) for r in ranks
        ),
        memory=tuple(tuple(_memory(schedule, times, r, engine.passes[r])) for r in ranks),
    )


def seconds(times: StageTimes, kind: str) -> float:
    """Return how long a pass takes; the first backward pass repeats the forward where that is asked for."""
    if kind == "F":
        return times.forward
    if kind == "W":
        return times.backward_weight
    return times.recompute + times.backward_input + (times.backward_weight if kind == "B" else 0.0)


@dataclass(slots=True)
class _Engine:
    """Where every rank stands, and what is ready where from when on."""

    schedule: Schedule
    times: tuple[StageTimes, ...]
    links: Links
    passes: list[list[Span]] = field(init=False)
    messages: list[list[Span]] = field(init=False)
    ready: dict[tuple[int, Key], float] = field(default_factory=dict)
    waiting: dict[tuple[int, Key], int] = field(default_factory=dict)
    channels: dict[tuple[int, int, str], float] = field(default_factory=lambda: defaultdict(float))
    places: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.passes = [[] for _ in self.schedule.orders]
        self.messages = [[] for _ in self.schedule.orders]
        self.places = [0] * self.schedule.ranks

    def run(self) -> None:
        """Work through all orders; a rank that has to wait is taken up again when what it waits for is there."""
        free = [0.0] * self.schedule.ranks
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
                free[rank] = self._start(rank, cell, free[rank], todo)
                self.places[rank] += 1
        for rank, order in enumerate(self.schedule.orders):
            if self.places[rank] < len(order):
                raise _stuck(self, rank)

    def missing(self, rank: int, cell: Cell) -> Key | None:
        """Return what a cell still waits for on its rank."""
        for action in cell:
            key = self.links.needs(action)
            if key is not None and (rank, key) not in self.ready:
                return key
        return None

    def _start(self, rank: int, cell: Cell, free: float, todo: list[int]) -> float:
        start = free
        for action in cell:
            key = self.links.needs(action)
            if key is not None:
                start = max(start, self.ready[(rank, key)])
        stop = start + sum(seconds(self.times[action.stage], action.kind) for action in cell)
        self.passes[rank].append(Span(rank=rank, stream="compute", actions=cell, start=start, stop=stop))
        for action in cell:
            if action.kind != "W":
                self._arrive(rank, provides(action), stop, todo)
                self._send(rank, action, stop, todo)
        return stop

    def _send(self, rank: int, action: Action, made: float, todo: list[int]) -> None:
        reader = self.links.reader(action)
        if reader is None or self.schedule.placement[reader] == rank:
            return
        to = self.schedule.placement[reader]
        cost = self.times[action.stage]
        stream, takes = ("forward", cost.send_forward) if action.kind == "F" else ("backward", cost.send_backward)
        start = max(made, self.channels[(rank, to, stream)])
        self.channels[(rank, to, stream)] = start + takes
        self.messages[rank].append(Span(rank=rank, stream=stream, actions=(action,), start=start, stop=start + takes))
        self._arrive(to, provides(action), start + takes, todo)

    def _arrive(self, rank: int, key: Key, time: float, todo: list[int]) -> None:
        self.ready[(rank, key)] = time
        waiter = self.waiting.pop((rank, key), None)
        if waiter is not None:
            todo.append(waiter)


def _ending(schedule: Schedule, times: tuple[StageTimes, ...], rank: int, passes: list[Span]) -> Iterator[Span]:
    """Yield the reductions of a rank in the order in which its stages are done, and its optimizer."""
    ended: dict[int, float] = {}
    for span in passes:
        for action in span.actions:
            if action.kind in "BW":
                ended[action.stage] = span.stop
    free = 0.0
    for stage, end in sorted(ended.items(), key=lambda item: item[1]):
        if times[stage].reduce:
            start = max(free, end)
            free = start + times[stage].reduce
            yield Span(rank=rank, stream="reduce", actions=(), start=start, stop=free, stage=stage)
    update = sum(times[stage].optimizer for stage in schedule.stages_of(rank))
    if update:
        start = max(free, passes[-1].stop if passes else 0.0)
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


def _stuck(engine: _Engine, rank: int) -> ScheduleError:
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
