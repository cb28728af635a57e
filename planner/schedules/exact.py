"""The best order of a small pipeline, by dynamic programming over how far every stage has come.

Microbatches are alike, so some best order takes them one after the other through every pass of every stage. A *state*
is then the number of forwards, input gradients and weight gradients that each stage has done; memory depends on nothing
else. A *label* of a state is when each rank is free, each message is there and each channel is free: of two labels, one
that is nowhere later makes the other superfluous, since an order that follows one can follow the other. Labels that
can't beat a known makespan are dropped.

States grow as C(m + 3, 3) to the power of the stages: this is for a handful of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import comb, inf

from ..core.schedule import Action, Schedule
from ..core.timeline import StageTimes
from .links import Links, links
from .simulate import seconds

MAX_STATES = 30_000

Counts = tuple[tuple[int, int, int], ...]
Arrivals = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class _Label:
    """When ranks are free, and per stage, the forwards and gradients that have come and wait; and how it came to be."""

    free: tuple[float, ...]
    forwards: Arrivals
    gradients: Arrivals
    channels: tuple[float, ...]
    before: _Label | None = None
    action: Action | None = None

    def no_later(self, other: _Label) -> bool:
        """Return whether nothing of it is later than in the other."""
        return all(
            a <= b
            for mine, theirs in (
                (self.free, other.free),
                (self.channels, other.channels),
                *zip(self.forwards, other.forwards, strict=True),
                *zip(self.gradients, other.gradients, strict=True),
            )
            for a, b in zip(mine, theirs, strict=True)
        )


def state_count(schedule: Schedule) -> int:
    """Return the number of states of the search for a better order of these stages and microbatches."""
    return int(comb(schedule.microbatches + 3, 3) ** len(schedule.placement))


def exact_orders(
    schedule: Schedule, times: tuple[StageTimes, ...], caps: tuple[float, ...], below: float
) -> tuple[tuple[Action, ...], ...] | None:
    """Return the best order of every rank with a makespan below a known one; None if there is none.

    Parameters
    ----------
    schedule
        Gives placement and microbatches; it must have one chain.
    caps
        Bytes that each rank may hold.
    below
        Seconds; only better orders are looked for.
    """
    search = _Search(schedule, times, caps, links(schedule))
    empty: tuple[tuple[float, ...], ...] = tuple(() for _ in times)
    first = _Label(
        (0.0,) * schedule.ranks,
        tuple((0.0,) * schedule.microbatches if s not in search.links.before else () for s in range(len(times))),
        empty,
        (0.0,) * (2 * len(times)),
    )
    layer: dict[Counts, list[_Label]] = {((0, 0, 0),) * len(times): [first]}
    for _ in range(3 * len(times) * schedule.microbatches):
        after: dict[Counts, list[_Label]] = {}
        for counts, labels in layer.items():
            for stage, kind in search.open(counts):
                moved = search.moved(counts, stage, kind)
                if not search.fits(moved):
                    continue
                kept = after.setdefault(moved, [])
                for label in labels:
                    found = search.step(label, counts, stage, kind)
                    if search.at_least(found, moved) < below * (1 - 1e-12):
                        _keep(kept, found)
        layer = {counts: labels for counts, labels in after.items() if labels}
    best = min((x for labels in layer.values() for x in labels), key=lambda x: max(x.free), default=None)
    if best is None or max(best.free, default=inf) >= below:
        return None
    return search.orders(best)


def _keep(kept: list[_Label], label: _Label) -> None:
    if any(other.no_later(label) for other in kept):
        return
    kept[:] = [other for other in kept if not label.no_later(other)]
    kept.append(label)


@dataclass(frozen=True, slots=True)
class _Search:
    schedule: Schedule
    times: tuple[StageTimes, ...]
    caps: tuple[float, ...]
    links: Links

    def open(self, counts: Counts) -> Iterator[tuple[int, str]]:
        """Yield the passes that a state allows next."""
        for stage, (f, i, w) in enumerate(counts):
            before, after = self.links.before.get(stage), self.links.after.get(stage)
            if f < (self.schedule.microbatches if before is None else counts[before][0]):
                yield stage, "F"
            if i < (f if after is None else min(f, counts[after][1])):
                yield stage, "I"
            if w < i:
                yield stage, "W"

    def moved(self, counts: Counts, stage: int, kind: str) -> Counts:
        """Return the state after a pass."""
        place = "FIW".index(kind)
        one = tuple(n + (at == place) for at, n in enumerate(counts[stage]))
        return (*counts[:stage], (one[0], one[1], one[2]), *counts[stage + 1 :])

    def fits(self, counts: Counts) -> bool:
        """Return whether every rank has room in a state."""
        held = [0.0] * self.schedule.ranks
        for stage, (f, i, w) in enumerate(counts):
            cost = self.times[stage]
            held[self.schedule.placement[stage]] += (
                cost.resident + (f - i) * cost.activation + (i - w) * cost.weight_gradient
            )
        return all(h <= cap * (1 + 1e-12) for h, cap in zip(held, self.caps, strict=True))

    def step(self, label: _Label, counts: Counts, stage: int, kind: str) -> _Label:
        """Return the label after a pass."""
        rank = self.schedule.placement[stage]
        start = label.free[rank]
        forwards, gradients, channels = list(label.forwards), list(label.gradients), list(label.channels)
        if kind == "F":
            start = max(start, forwards[stage][0])
            forwards[stage] = forwards[stage][1:]
        elif kind == "I" and stage in self.links.after:
            start = max(start, gradients[stage][0])
            gradients[stage] = gradients[stage][1:]
        stop = start + seconds(self.times[stage], kind)
        reader = None if kind == "W" else self.links.reader(Action(stage, "F" if kind == "F" else "I", 0))
        if reader is not None:
            arrival = stop
            if self.schedule.placement[reader] != rank:
                cost = self.times[stage]
                channel = 2 * stage + (kind == "F")
                arrival = max(stop, channels[channel]) + (cost.send_forward if kind == "F" else cost.send_backward)
                channels[channel] = arrival
            box = forwards if kind == "F" else gradients
            box[reader] = (*box[reader], arrival)
        micro = counts[stage]["FIW".index(kind)]
        return _Label(
            tuple(stop if r == rank else t for r, t in enumerate(label.free)),
            tuple(forwards),
            tuple(gradients),
            tuple(channels),
            label,
            Action(stage, kind, micro),
        )

    def at_least(self, label: _Label, counts: Counts) -> float:
        """Return seconds that no completion of a label can go below: what each rank still has to do."""
        left = list(label.free)
        for stage, done in enumerate(counts):
            for kind, count in zip("FIW", done, strict=True):
                left[self.schedule.placement[stage]] += (self.schedule.microbatches - count) * seconds(
                    self.times[stage], kind
                )
        return max(left)

    def orders(self, label: _Label) -> tuple[tuple[Action, ...], ...]:
        """Return the passes of every rank that led to a label."""
        found: list[list[Action]] = [[] for _ in range(self.schedule.ranks)]
        at: _Label | None = label
        while at is not None and at.action is not None:
            found[self.schedule.placement[at.action.stage]].append(at.action)
            at = at.before
        return tuple(tuple(reversed(order)) for order in found)
