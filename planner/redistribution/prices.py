"""What the moves of a search graph cost for a tensor of one size, worked out once for all searches that meet it.

Costs are whole numbers, so that sums are exact and equal prices are equal: femtoseconds, below the bits of what the
objective counts first. Every step costs a tick more than its price, which decides equal prices for fewer steps; it is
far below any real difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..collectives import COLLECTIVES
from ..collectives.boxes import moved_axes, near_axes
from ..collectives.permute import permutes
from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from .frame import Frame
from .graph import Graph
from .moves import Move, State, moved

Price = Callable[[Step], float]
"""Seconds that a step takes, at least 0. Where all parts are equal it must depend on nothing but the kind, the axes and
the local sizes in elements, except for an exchange: it is asked once for these."""

SECOND = 10**15
TICK = 1000
SHIFT = 64


def _nothing(axes: Axes) -> tuple[float, float]:
    return 0.0, 0.0


class Floor(NamedTuple):
    """What bringing elements to a rank that lacks them takes at least under a price list.

    The default says nothing, and is true of every price.

    Parameters
    ----------
    setup, element
        Seconds of any collective that is not local, and by the element that a rank lacks.
    exchange
        The same two for an exchange within groups over some axes.
    """

    setup: float = 0.0
    element: float = 0.0
    exchange: Callable[[Axes], tuple[float, float]] = _nothing


class Paid(NamedTuple):
    """Femtoseconds of a step, and what its busiest rank receives, in parts of an element: one for each device."""

    time: int
    received: int


class Edge(NamedTuple):
    """A move with its cost, the layout that it leads to, the most elements of a rank there, and what it pays."""

    cost: int
    node: int
    elements: int
    move: Move
    paid: Paid


class Prices:
    """Costs of the moves for one tensor size and one objective."""

    def __init__(
        self, frame: Frame, graph: Graph, mesh: DeviceMesh, price: Price, table: dict[tuple[object, ...], Paid],
        first: str,
    ) -> None:  # fmt: skip
        self.graph = graph
        self._frame, self._mesh, self._price, self._table = frame, mesh, price, table
        self._first = first
        self._sizes = dict(frame.rules.sizes)
        self._edges: dict[int, list[Edge]] = {}
        self._elements: dict[int, int] = {}

    def elements(self, node: int) -> int:
        """Return the largest number of elements that a rank holds in a layout."""
        found = self._elements.get(node)
        if found is None:
            found = self._frame.rest
            for room, axes in zip(self._frame.rooms, self.graph.states[node][0], strict=True):
                for axis in axes:
                    room = -(-room // self._sizes[axis])
                found *= room
            self._elements[node] = found
        return found

    def edges(self, node: int) -> list[Edge]:
        """Return the moves out of a layout, the cheapest first."""
        found = self._edges.get(node)
        if found is None:
            here = self.elements(node)
            found = []
            for move, after, named in self.graph.moves(node):
                there = self.elements(after)
                paid = self._paid(node, move, (named, here, there))
                if paid is not None:
                    found.append(Edge(self.total(paid), after, there, move, paid))
            found.sort(key=cost_of)
            self._edges[node] = found
        return found

    def _paid(self, node: int, move: Move, key: tuple[object, ...]) -> Paid | None:
        """Return what a move costs; None for a permute between layouts that cut the tensor into other boxes."""
        if not self._frame.even:
            state = self.graph.states[node]
            if move.kind == "permute" and not self._permutes(state, move.state):
                return None
            return self._ask(state, move)
        paid = self._table.get(key)
        if paid is None:
            paid = self._table[key] = self._ask(self.graph.states[node], move)
        return paid

    def _permutes(self, state: State, after: State) -> bool:
        layouts = self._frame.layout(state), self._frame.layout(after)
        return permutes(*layouts, self._frame.shape, self._mesh)

    def exchange(self, node: int, goal: int, axes: Axes) -> Edge:
        """Return the direct exchange between two layouts within groups over some axes."""
        move = Move("exchange", axes, -1, -1, self.graph.states[goal])
        paid = self._ask(self.graph.states[node], move)
        return Edge(self.total(paid), goal, self.elements(goal), move, paid)

    def exchange_axes(self, node: int, goal: int) -> tuple[Axes, Axes]:
        """Return the axes over which an exchange may run: all that move, and those of them that shard the layout."""
        before, after = self.graph.states[node], self.graph.states[goal]
        if not self._frame.even:
            layouts = self._frame.layout(before), self._frame.layout(after)
            arguments = (*layouts, self._frame.shape, self._mesh)
            return moved_axes(*arguments), near_axes(*arguments)
        moving = moved(self._sizes, before[0], after[0])
        sharding = {axis for axes in before[0] for axis in axes}
        return moving, tuple(axis for axis in moving if axis in sharding)

    def step(self, state: State, move: Move) -> Step:
        """Return a move out of a layout as a step on the tensor."""
        return step(self._frame, self._mesh, self._frame.layout(state), move)

    def _ask(self, state: State, move: Move) -> Paid:
        asked = self.step(state, move)
        received = COLLECTIVES[move.kind].received(asked, self._mesh) * self._mesh.device_count
        return Paid(round(self._price(asked) * SECOND) + TICK, round(received))

    def total(self, paid: Paid) -> int:
        """Return the cost of a step under the objective."""
        match self._first:
            case "bytes":
                return (paid.received << SHIFT) + paid.time
            case "steps":
                return (1 << SHIFT) + paid.time
            case _:
                return paid.time


def cost_of(edge: Edge) -> int:
    """Return the cost of an edge, to sort by."""
    return edge.cost


def step(frame: Frame, mesh: DeviceMesh, layout: Layout, move: Move) -> Step:
    """Return a move of the smaller problem as a step on the tensor that lies as `layout`."""
    named = move.dim >= 0 or move.kind in UNTARGETED
    target = None if named else frame.layout(move.state)
    return COLLECTIVES[move.kind].step(
        layout, frame.shape, mesh, axes=move.axes, dim=frame.dim(move.dim), to_dim=frame.dim(move.to_dim),
        target=target,
    )  # fmt: skip


UNTARGETED = ("all_reduce", "zero")
"""Collectives without a dim whose target follows from the axes."""
