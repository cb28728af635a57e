"""Orders made by running a pipeline and deciding at every free moment by rule what comes next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import product
from math import inf

from ..core.schedule import Action, Schedule
from ..core.timeline import StageTimes
from .links import Links, links
from .simulate import seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a free rank does.

    Parameters
    ----------
    backward_first
        Whether a backward goes before a forward that could run as well.
    deepest_first
        Whether, of several stages, the later one's forward comes first.
    patience
        A weight gradient runs in a gap of at least this share of its own time.
    ahead
        Most microbatches that may be under way on a rank between forward and input gradient, for each stage, as a share
        of the ranks from here to the end of the chain and back; inf for what memory allows.
    """

    backward_first: bool
    deepest_first: bool
    patience: float
    ahead: float


RULES = tuple(
    Rule(backward_first=b, deepest_first=d, patience=p, ahead=a)
    for b, d, p, a in product((True, False), (True, False), (0.0, 0.5, 0.75, 1.0), (1.0, 2.0, inf))
)


def greedy_orders(
    schedule: Schedule, times: tuple[StageTimes, ...], caps: tuple[float, ...], rule: Rule
) -> tuple[tuple[Action, ...], ...] | None:
    """Return the order of every rank by a rule; None if memory keeps it from ending."""
    run = _Run(schedule, times, caps, rule, links(schedule))
    return run.orders()


@dataclass(slots=True)
class _Run:
    schedule: Schedule
    times: tuple[StageTimes, ...]
    caps: tuple[float, ...]
    rule: Rule
    links: Links
    forwards: list[deque[tuple[float, int]]] = field(init=False)
    gradients: list[deque[tuple[float, int]]] = field(init=False)
    weights: list[deque[tuple[int, int]]] = field(init=False)
    held: list[float] = field(init=False)
    under_way: list[int] = field(init=False)

    def __post_init__(self) -> None:
        stages = range(len(self.times))
        self.forwards = [deque() for _ in stages]
        self.gradients = [deque() for _ in stages]
        self.weights = [deque() for _ in range(self.schedule.ranks)]
        self.held = [0.0] * self.schedule.ranks
        self.under_way = [0] * len(self.times)
        for stage in stages:
            self.held[self.schedule.placement[stage]] += self.times[stage].resident
        for chain in self.schedule.chains:
            self.forwards[chain.stages[0]].extend((0.0, m) for m in chain.microbatches)

    def orders(self) -> tuple[tuple[Action, ...], ...] | None:
        """Run until all is done; always the rank that is free first decides."""
        ranks = self.schedule.ranks
        found: list[list[Action]] = [[] for _ in range(ranks)]
        channels: dict[tuple[int, int, str], float] = {}
        queue = [(0.0, rank) for rank in range(ranks)]
        heapify(queue)
        idle: dict[int, float] = {}
        while queue:
            now, rank = heappop(queue)
            action, wait = self._choose(rank, now)
            if action is None:
                if wait == inf:
                    idle[rank] = now
                else:
                    heappush(queue, (wait, rank))
                continue
            found[rank].append(action)
            stop = now + seconds(self.times[action.stage], action.kind)
            there, arrival = self._done(rank, action, stop, channels)
            heappush(queue, (stop, rank))
            if there in idle:
                heappush(queue, (max(arrival, idle.pop(there)), there))
        wanted = 3 * self.schedule.microbatches * len(self.times)
        return tuple(map(tuple, found)) if sum(map(len, found)) == wanted else None

    def _choose(self, rank: int, now: float) -> tuple[Action | None, float]:
        """Return what a rank does now, or None and when something new is known to come."""
        ready: list[tuple[tuple[float, ...], Action]] = []
        wait = inf
        for stage, kind, time, micro in self._heads(rank):
            if kind == "F" and not self._room(rank, stage):
                continue
            if time > now:
                wait = min(wait, time)
                continue
            first = (kind == "I") == self.rule.backward_first
            depth = -stage if self.rule.deepest_first else stage
            ready.append(((0.0 if first else 1.0, depth), Action(stage, kind, micro)))
        if ready:
            return min(ready)[1], wait
        if self.weights[rank]:
            stage, micro = self.weights[rank][0]
            blocked = wait == inf
            if blocked or wait - now >= self.rule.patience * self.times[stage].backward_weight:
                return Action(stage, "W", micro), wait
        return None, wait

    def _heads(self, rank: int) -> Iterator[tuple[int, str, float, int]]:
        for stage in self.schedule.stages_of(rank):
            if self.gradients[stage]:
                yield (stage, "I", *self.gradients[stage][0])
            if self.forwards[stage]:
                yield (stage, "F", *self.forwards[stage][0])

    def _room(self, rank: int, stage: int) -> bool:
        """Return whether a forward has room, with enough left for one of each later stage of the rank."""
        later = [s for s in self.schedule.stages_of(rank) if s > stage and not self.under_way[s]]
        needed = self.times[stage].activation + sum(self.times[s].activation for s in later)
        if self.held[rank] + needed > self.caps[rank] * (1 + 1e-12):
            return False
        left = self.schedule.parts - self.schedule.part_of(stage)
        return self.under_way[stage] < max(1.0, self.rule.ahead * left)

    def _done(
        self, rank: int, action: Action, stop: float, channels: dict[tuple[int, int, str], float]
    ) -> tuple[int, float]:
        """Book a pass; return the rank that its result comes to, and when."""
        stage, micro, cost = action.stage, action.microbatch, self.times[action.stage]
        if action.kind == "F":
            self.forwards[stage].popleft()
            self.held[rank] += cost.activation
            self.under_way[stage] += 1
            if stage not in self.links.after:
                self.gradients[stage].append((stop, micro))
        elif action.kind == "I":
            self.gradients[stage].popleft()
            self.held[rank] -= cost.activation - cost.weight_gradient
            self.under_way[stage] -= 1
            self.weights[rank].append((stage, micro))
        else:
            self.weights[rank].popleft()
            self.held[rank] -= cost.weight_gradient
        reader = self.links.reader(action)
        if reader is None:
            return rank, stop
        arrival, there = stop, self.schedule.placement[reader]
        if there != rank:
            channel = (rank, there, action.kind)
            takes = cost.send_forward if action.kind == "F" else cost.send_backward
            arrival = channels[channel] = max(stop, channels.get(channel, 0.0)) + takes
        (self.forwards if action.kind == "F" else self.gradients)[reader].append((arrival, micro))
        return there, arrival
