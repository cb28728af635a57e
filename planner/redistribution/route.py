"""The best way through a search graph, by A*: Dijkstra's algorithm with a lower bound of what is left to pay.

The bound is what the neediest rank lacks of the target, at the least price at which elements come in (`graph`,
`bound`). It is no larger than any way's cost and falls along a step by no more than the step costs, so that the first
time that the search would leave the target, no cheaper way is left. A slice before another step is a view: it takes no
room and keeps its input until that step is done, so that a search's spot is a layout and what it is a view of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf, prod

import numpy as np

from ..core.mesh import Axes
from .bound import summing_elements
from .exchanges import is_named, refines, unpadded
from .graph import Graph
from .moves import Move, State
from .prices import SECOND, SHIFT, Edge, Floor, Prices, cost_of

Spot = tuple[int, int]
"""A layout's number, and the elements of what it is a view of; 0 if it is no view."""

FAR = 1 << 512

MOST_COUNTED = 1 << 62

NEAR_RANKS = 64
"""Ranks in the groups of an exchange that does without the axes that the source replicates, at most."""

EXCHANGE_WORK = 50
"""Moves that are followed in the time in which the price of an exchange is worked out, about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A way, what it costs, and what no way costs less than."""

    moves: tuple[Move, ...]
    cost: int
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a search looks for.

    Parameters
    ----------
    first
        The objective.
    exchange
        Whether the direct exchange may be used.
    budget
        Moves that may be followed before the best way so far is taken; None if all may.
    devices
        Ranks of the mesh.
    even
        Whether all parts are equal wherever the search goes.
    """

    graph: Graph
    prices: Prices
    floor: Floor
    source: int
    target: int
    shape: tuple[int, ...]
    rooms: tuple[int, ...]
    scale: int
    first: str
    exchange: bool
    budget: int | None
    devices: int
    sizes: dict[str, int]
    even: bool


@dataclass(slots=True)
class _Front:
    """How far a search has come: what it paid to every spot, and the spots that it has not left yet."""

    limit: float
    best: dict[Spot, int]
    queue: list[tuple[int, int, int, Spot]]
    came: dict[Spot, tuple[Spot, Move]] = field(default_factory=dict)
    enough: int = FAR
    kept_out: float = inf
    pushed: int = 0
    hurried: bool = False

    def push(self, estimate: int, left: int, paid: int, spot: Spot) -> None:
        """Add a spot, by what its ways cost at least; in a hurry, by what is left of that."""
        self.pushed += 1
        heappush(self.queue, (left if self.hurried else estimate, self.pushed, paid, spot))

    def hurry(self, bounds: list[int]) -> None:
        """From here on, take first what lacks least: the budget is spent, and any way will do."""
        self.hurried = True
        self.queue = [(bounds[spot[0]], order, paid, spot) for _, order, paid, spot in self.queue]
        heapify(self.queue)


class Search:
    """One search: the lower bounds of the layouts that it has met, and what it paid to get there."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.goal = question.graph.states[question.target]
        self.bounds: list[int] = []
        self.lacking: list[int] = []
        self.work = 0
        self.extend()

    def cheapest(self, limit: float) -> tuple[Route | None, float]:
        """Return the cheapest way whose steps keep within the limit, and the least peak of a step that did not."""
        question = self.question
        start: Spot = (question.source, 0)
        front = _Front(limit=limit, best={start: 0}, queue=[(self.bounds[question.source], 0, 0, start)])
        least = FAR
        while front.queue:
            estimate, _, paid, spot = heappop(front.queue)
            if estimate >= front.enough or (front.hurried and front.enough < FAR):
                break
            if paid > front.best[spot]:
                continue
            if question.budget is not None and self.work > question.budget and not front.hurried:
                least = estimate
                if front.enough < FAR:
                    break
                front.hurry(self.bounds)
            self._leave(front, spot, paid)
        if front.enough == FAR:
            return None, front.kept_out
        moves = _moves(front.came, start, (question.target, 0))
        return Route(moves=moves, cost=front.enough, least=min(least, front.enough)), front.kept_out

    def least_peak(self) -> float:
        """Return the least peak of any way; infinity if there is none."""
        prices, goal = self.question.prices, self.question.target
        start: Spot = (self.question.source, 0)
        best: dict[Spot, int] = {start: 0}
        queue: list[tuple[int, Spot]] = [(0, start)]
        while queue:
            peak, spot = heappop(queue)
            if spot[0] == goal:
                return peak
            if peak > best[spot]:
                continue
            node, viewed = spot
            here = viewed or prices.elements(node)
            ways = [(edge.node, edge.move.kind == "slice" and edge.node != goal) for edge in prices.edges(node)]
            if self.question.exchange and not viewed:
                ways += [(after, False) for after, _ in self.exchanges(node)]
            for after, view in ways:
                higher = peak if view else max(peak, here + prices.elements(after))
                reached = after, here if view else 0
                if higher < best.get(reached, FAR):
                    best[reached] = higher
                    heappush(queue, (higher, reached))
        return inf

    def _leave(self, front: _Front, spot: Spot, paid: int) -> None:
        """Follow the moves out of a spot."""
        node, viewed = spot
        goal, bounds, best = self.question.target, self.bounds, front.best
        here = viewed or self.question.prices.elements(node)
        for cost, after, elements, move, _ in self._edges(node, viewed, front.enough - paid):
            total = paid + cost
            if total >= front.enough:
                break
            estimate = total + bounds[after]
            if estimate >= front.enough:
                continue
            view = move.kind == "slice" and after != goal
            if not view and here + elements > front.limit:
                front.kept_out = min(front.kept_out, here + elements)
                continue
            reached = after, here if view else 0
            if total < best.get(reached, FAR):
                best[reached] = total
                front.came[reached] = spot, move
                if after == goal:
                    front.enough = total
                else:
                    front.push(estimate, bounds[after], total, reached)

    def _edges(self, node: int, viewed: int, room: int) -> list[Edge]:
        """Return the moves out of a layout that may cost less than `room`, the cheapest first."""
        edges = self.question.prices.edges(node)
        if self.question.exchange and not viewed:
            ways = [(goal, axes) for goal, axes in self.exchanges(node) if self._least_exchange(node, axes) < room]
            if ways:
                direct = [self.question.prices.exchange(node, goal, axes) for goal, axes in ways]
                edges = sorted([*edges, *direct], key=cost_of)
                self.work += EXCHANGE_WORK * len(direct)
        self.work += len(edges)
        self.extend()
        return edges

    def every_edge(self, node: int, viewed: int) -> list[Edge]:
        """Return the moves out of a layout, exchanges included where it is no view."""
        return self._edges(node, viewed, FAR)

    def exchanges(self, node: int) -> list[tuple[int, Axes]]:
        """Return where exchanges out of a layout may lead, and over which axes.

        That is the target, or where only zeros and pads are missing; over all axes that move, or over those of them
        that shard the layout.
        """
        graph = self.question.graph
        dims, partial, reduce = graph.states[node]
        goal, wanted, wanted_reduce = self.goal
        if partial and (not set(partial) <= set(wanted) or reduce != wanted_reduce):
            return []
        goals = unpadded(goal, tuple(axis for axis in wanted if axis not in partial))
        even, sizes = self.question.even, self.question.sizes
        found: list[tuple[int, Axes]] = []
        for after in goals:
            if refines(dims, after):
                continue
            number = graph.number((after, partial, reduce))
            moving, near = self.question.prices.exchange_axes(node, number)
            if not (even and is_named(sizes, dims, after)):
                found.append((number, moving))
            if near != moving and prod(sizes[axis] for axis in near) <= NEAR_RANKS:
                found.append((number, near))
        return found

    def _least_exchange(self, node: int, axes: Axes) -> int:
        """Return what an exchange within groups over some axes costs at least: what it moves takes long to work out."""
        setup, element = self.question.floor.exchange(axes)
        time = int((setup + element * self.lacking[node]) * SECOND)
        return self._first(self.question.graph.states[node], self.lacking[node]) + time

    def extend(self) -> None:
        """Find the lower bounds of the layouts that are new in the graph."""
        question = self.question
        first, states = len(self.bounds), question.graph.states
        if len(states) == first:
            return
        if self.goal[1] or prod(question.rooms) * question.scale > MOST_COUNTED:
            # What is partial in the target may be anywhere, on no rank that wants it. Nor is more counted than the
            # bits of an array's numbers hold: zero is a bound, too.
            self.bounds += [0] * (len(states) - first)
            self.lacking += [0] * (len(states) - first)
            return
        lacking = question.graph.needs(question.target, question.rooms, first) * question.scale
        partial = question.graph.partial(first)
        lacking = np.where(partial, question.prices.elements(question.target), lacking)
        time = (question.floor.setup + question.floor.element * lacking) * SECOND
        least: list[int] = np.where(lacking > 0, np.minimum(time, MOST_COUNTED), 0.0).astype(np.int64).tolist()
        self.lacking += lacking.tolist()
        if question.first == "time":
            self.bounds += least
            return
        for node, bound in enumerate(least, first):
            self.bounds.append(self._first(states[node], self.lacking[node]) + bound)

    def _first(self, state: State, lacks: int) -> int:
        """Return the least of what the objective counts first."""
        question = self.question
        if not lacks or question.first == "time":
            return 0
        if question.first == "steps":
            return 1 << SHIFT
        received = lacks * question.devices
        if state[1]:
            count = prod(question.sizes[a] for a in state[1])
            copies = question.devices // prod(question.sizes[a] for axes in self.goal[0] for a in axes)
            received = max(received, summing_elements(question.shape, count, copies))
        return received << SHIFT


def _moves(came: dict[Spot, tuple[Spot, Move]], start: Spot, end: Spot) -> tuple[Move, ...]:
    path: list[Move] = []
    while end != start:
        end, move = came[end]
        path.append(move)
    return tuple(reversed(path))
