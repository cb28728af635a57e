"""The search graph between layouts, as far as searches have walked it, and what its layouts lack of each other.

It knows axes and dims, but no tensor, source or price: one graph serves all redistributions over the same axes.

What rank r has to receive on the way from layout S to layout T is at least `|T(r)| − |T(r) ∩ S(r)|`, T(r) the box that
it holds under T. The intersection is a product over dims of the overlaps of two intervals, so that a table of the
intervals of every choice of axes on a dim gives it for all layouts of the graph at once.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import islice, product
from math import prod

import numpy as np
import numpy.typing as npt

from ..core.mesh import Axes
from .moves import Move, Rules, State, moves

Array = npt.NDArray[np.int64]

SAMPLED = 64


class Graph:
    """Layouts by number, and the moves between them; grows as searches leave layouts."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.states: list[State] = []
        self._numbers: dict[State, int] = {}
        self._moves: list[list[tuple[Move, int, str]] | None] = []
        self._choices: dict[Axes, int] = {}
        self._dims = array("q")
        self._partial = array("b")
        self._needs: dict[tuple[int, ...], _Intervals] = {}

    def number(self, state: State) -> int:
        """Return the number of a state."""
        found = self._numbers.get(state)
        if found is None:
            found = self._numbers[state] = len(self.states)
            self.states.append(state)
            self._moves.append(None)
            self._dims.extend(self._choices.setdefault(axes, len(self._choices)) for axes in state[0])
            self._partial.append(bool(state[1]))
        return found

    def moves(self, node: int) -> list[tuple[Move, int, str]]:
        """Return the moves out of a layout, each with the number of the layout that it leads to.

        The third entry is equal for moves of one kind over the same axes, whatever their order.
        """
        found = self._moves[node]
        if found is None:
            found = [
                (move, self.number(move.state), f"{move.kind} {sorted(move.axes)}")
                for move in moves(self.rules, self.states[node])
            ]
            self._moves[node] = found
        return found

    def needs(self, target: int, rooms: tuple[int, ...], first: int = 0) -> Array:
        """Return what the neediest of some ranks lacks of the target, for every layout from number `first` on.

        All ranks are looked at where they are few, else those at the first and last coordinate of every axis, which
        still makes it a lower bound.

        Parameters
        ----------
        rooms
            Lengths of the dims.
        """
        table = self._needs.get(rooms)
        if table is None:
            if len(self._needs) > SAMPLED:
                self._needs.clear()
            table = self._needs[rooms] = _Intervals(self.rules, rooms)
        table.extend(self._choices)
        width = self.rules.width
        # A view of a buffer that grows: it must not outlive this call.
        dims = np.frombuffer(self._dims, np.int64)[first * width :].reshape(len(self.states) - first, width)
        return table.needs(dims, self._dims[target * width : (target + 1) * width].tolist())

    def partial(self, first: int = 0) -> npt.NDArray[np.bool_]:
        """Return whether a layout has partial axes, for every one from number `first` on."""
        return np.frombuffer(self._partial[first:], np.bool_)


class _Intervals:
    """Where the part of each sampled rank begins and ends on a dim, for every choice of axes on it."""

    def __init__(self, rules: Rules, rooms: tuple[int, ...]) -> None:
        sizes = [n for _, n in rules.sizes]
        every = prod(sizes) <= SAMPLED
        corners = [range(n) if every else (0, n - 1) for n in sizes]
        grid = np.array(list(product(*corners)), np.int64).reshape(-1, len(sizes))
        self._coordinates = {a: grid[:, i] for i, (a, _) in enumerate(rules.sizes)}
        self._ranks = len(grid)
        self._sizes = dict(rules.sizes)
        self._rooms = rooms
        self._known = 0
        self._starts: list[Array] = [np.zeros((0, self._ranks), np.int64) for _ in rooms]
        self._stops = list(self._starts)

    def extend(self, choices: Mapping[Axes, int]) -> None:
        """Add the intervals of choices that are new since the last time."""
        if len(choices) == self._known:
            return
        new = list(islice(choices, self._known, None))
        self._known = len(choices)
        for dim, room in enumerate(self._rooms):
            pairs = [self._interval(axes, room) for axes in new]
            self._starts[dim] = np.concatenate([self._starts[dim], np.array([a for a, _ in pairs])])
            self._stops[dim] = np.concatenate([self._stops[dim], np.array([b for _, b in pairs])])

    def _interval(self, axes: Axes, room: int) -> tuple[Array, Array]:
        start, stop = np.zeros(self._ranks, np.int64), np.full(self._ranks, room, np.int64)
        for axis in axes:
            length = -((start - stop) // self._sizes[axis])
            start = np.minimum(start + self._coordinates[axis] * length, stop)
            stop = np.minimum(start + length, stop)
        return start, stop

    def needs(self, dims: Array, target: list[int]) -> Array:
        whole = common = np.ones(1, np.int64)
        for dim, wanted in enumerate(target):
            starts, stops = self._starts[dim], self._stops[dim]
            whole = whole * (stops[wanted] - starts[wanted])
            overlap = np.minimum(stops, stops[wanted]) - np.maximum(starts, starts[wanted])
            common = common * np.maximum(overlap, 0)[dims[:, dim]]
        if not target:
            return np.zeros(len(dims), np.int64)
        lacks: Array = (whole - common).max(axis=1)
        return lacks
