"""The cheapest sequence of collectives between two layouts, by Dijkstra over layouts.

The price of a step is the caller's; the cost of a path is their sum. A step is allowed if it keeps
within the *logical peak*: its input and output together are no larger than source and target
together. A slice before another step is a view: it takes no room and keeps its input until that
step is done. Where no sequence is allowed (a Partial(max) can only be all-reduced, say), those with
the least peak are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import inf, prod

from ..collectives import COLLECTIVES
from ..core.collective import Redistribution, Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..errors import LayoutError
from .neighbours import Move, Space, State, moves, refines, space, state_of

Spot = tuple[State, int]
"""A state, and the local elements of what it is a view of; 0 if it is no view."""

Price = Callable[[Step], float]
"""Seconds that a step takes. Except for an exchange, it must depend on nothing but the kind, the
axes and the local sizes in elements: it is asked once for these."""

# What a step costs above its price: it decides equal prices for fewer steps in spite of rounding, and
# a picosecond is far below any real difference.
TICK = 1e-12


def plan_redistribution(
    source: Layout,
    target: Layout,
    shape: tuple[int, ...],
    mesh: DeviceMesh,
    price: Price,
    peak_limit: bool = True,
) -> Redistribution:
    """Return the cheapest sequence of collectives from `source` to `target`.

    Equal prices are decided for fewer steps, then for lower dims and the order of axes in the mesh. An
    exchange stands for no move that a named collective makes too.

    Parameters
    ----------
    shape
        Global shape of the tensor; both layouts must divide it evenly.
    price
        Seconds that a step takes, at least 0; see `Price`.
    peak_limit
        Whether every step has to keep within the logical peak.

    Raises
    ------
    LayoutError
        `layout.uneven-unsupported`, `layout.rank-mismatch`, `mesh.axis-unknown`;
        `redistribution.unreachable` when the target is a partial maximum or minimum and the source
        is not.
    """
    source.require_even(shape, mesh)
    target.require_even(shape, mesh)
    limit = source.local_elements(shape, mesh) + target.local_elements(shape, mesh)
    mesh.size_of(source.used | target.used)
    before, after = source.normal(mesh), target.normal(mesh)
    path = _local(before, after, mesh)
    if path is None:
        search = _Search(before, shape, mesh, price, space(before, after, shape, mesh))
        path = search.cheapest(limit if peak_limit else inf)
    steps = _steps(path, before, shape, mesh)
    return Redistribution(source=source, target=target, shape=shape, steps=steps)


@dataclass(slots=True)
class _Search:
    """One search with the prices that it has asked for."""

    source: Layout
    shape: tuple[int, ...]
    mesh: DeviceMesh
    price: Price
    space: Space
    prices: dict[tuple[object, ...], float] = field(default_factory=dict)

    def cheapest(self, limit: float) -> tuple[Move, ...]:
        """Return the cheapest path within the limit, or within the least one that allows any."""
        while True:
            path, next_limit = self._within(limit)
            if path is not None:
                return path
            if next_limit == inf:
                target = Layout(*self.space.target)
                raise LayoutError(
                    "redistribution.unreachable",
                    f"No collectives lead from {self.source} to {target}: only partial sums can be "
                    f"made from other layouts, not partial {target.reduce}.",
                    "Use the value without partial axes.",
                )
            limit = next_limit

    def _within(self, limit: float) -> tuple[tuple[Move, ...] | None, float]:
        """Return the cheapest path, and the least peak of a step that the limit kept out."""
        start, goal = (state_of(self.source), 0), self.space.target
        best: dict[Spot, float] = {start: 0.0}
        came: dict[Spot, tuple[Spot, Move]] = {}
        order = count()
        elements = prod(self.source.local_shape(self.shape, self.mesh))
        queue: list[tuple[float, int, Spot, int]] = [(0.0, 0, start, elements)]
        kept_out, enough = inf, inf
        while queue:
            cost, _, spot, elements = heappop(queue)
            state, viewed = spot
            if state == goal:
                return _path(came, start, spot), kept_out
            if cost > best[spot]:
                continue
            for move in moves(self.space, state, elements, exchange=not viewed):
                held = viewed or elements
                view = move.kind == "slice" and move.state != goal
                if held + move.elements > limit and not view:
                    kept_out = min(kept_out, held + move.elements)
                    continue
                total = cost + self._price(state, elements, move)
                reached = move.state, held if view else 0
                if total < enough and total < best.get(reached, inf):
                    best[reached] = total
                    came[reached] = spot, move
                    heappush(queue, (total, next(order), reached, move.elements))
                    if move.state == goal:
                        enough = total
        return None, kept_out

    def _price(self, state: State, elements: int, move: Move) -> float:
        key: tuple[object, ...] = (move.kind, move.axes, elements, move.elements)
        if move.kind == "exchange":
            key = (*key, state, move.state)
        found = self.prices.get(key)
        if found is None:
            step = _step(move, Layout(*state), self.shape, self.mesh)
            found = self.prices[key] = self.price(step) + TICK
        return found


def _path(came: dict[Spot, tuple[Spot, Move]], start: Spot, goal: Spot) -> tuple[Move, ...]:
    path: list[Move] = []
    while goal != start:
        goal, move = came[goal]
        path.append(move)
    return tuple(reversed(path))


def _local(source: Layout, target: Layout, mesh: DeviceMesh) -> tuple[Move, ...] | None:
    """Return the path where slices alone, or zero alone, lead to the target; None elsewhere.

    The slices into most parts come first, since they leave least for the others to copy.
    """
    state = state_of(target)
    if (source.partial, source.reduce) == (target.partial, target.reduce):
        if not refines(source.dims, target.dims):
            return None
        added = [
            (dim, after[len(before) :])
            for dim, (before, after) in enumerate(zip(source.dims, target.dims, strict=True))
            if len(after) > len(before)
        ]
        added.sort(key=lambda item: -mesh.size_of(item[1]))
        return tuple(Move("slice", axes, dim, -1, state, 0) for dim, axes in added)
    missing = tuple(a for a in mesh.names if a in target.partial and a not in source.used)
    if source.dims != target.dims or source.reduce != "sum" or target.reduce != "sum":
        return None
    if set(target.partial) != {*source.partial, *missing}:
        return None
    return (Move("zero", missing, -1, -1, state, 0),)


def _steps(path: tuple[Move, ...], layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> tuple[Step, ...]:
    steps = []
    for move in path:
        step = _step(move, layout, shape, mesh)
        steps.append(step)
        layout = step.target
    return tuple(steps)


def _step(move: Move, layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Step:
    target = Layout(*move.state) if move.kind == "exchange" else None
    return COLLECTIVES[move.kind].step(
        layout, shape, mesh, axes=move.axes, dim=move.dim, to_dim=move.to_dim, target=target
    )
