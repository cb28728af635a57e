"""The best sequence of collectives between two layouts.

The price of a step is the caller's; the cost of a way is their sum. A step is allowed if it keeps within the *logical
peak*: its input and output together are no larger than source and target together (`Redistribution.peak_elements`
says what counts). Where no sequence is allowed, a sum-exchange is taken, which holds nothing but source and target;
where that does not apply either (to a Partial(max), say), the sequences with the least peak are allowed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace
from math import inf, prod
from typing import TypeVar

from ..collectives import COLLECTIVES
from ..collectives.definition import even
from ..core.collective import Redistribution, Step
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..errors import LayoutError
from .exchanges import refines
from .frame import FEW, Frame, frame
from .graph import Graph
from .moves import Move, Rules
from .options import DEFAULT_OPTIONS, SearchOptions
from .pareto import pareto_front
from .prices import SHIFT, Floor, Paid, Price, Prices, step
from .route import Question, Route, Search

MOST_SUMMING = 256
KEPT_GRAPHS, KEPT_SIZES, KEPT_PRICES = 64, 256, 1 << 17
PARETO_WAYS = 20000
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


class Planner:
    """Plans redistributions on one mesh under one price list.

    It keeps what does not belong to one pair of layouts: the search graphs of sets of axes, and the prices of their
    moves by tensor size.

    Parameters
    ----------
    mesh
        Axes that layouts may use.
    price
        Seconds that a step takes; see `Price`.
    floor
        What bringing elements to a rank takes at least under this price list.
    added_in
        Element type in which sums are added, where it is wider than the tensors'; `Step.added_in`.
    """

    def __init__(self, mesh: DeviceMesh, price: Price, floor: Floor | None = None, added_in: str = "") -> None:
        self.mesh, self.floor, self.added_in = mesh, floor or Floor(), added_in
        self.price: Price = (lambda step: price(self._marked(step))) if added_in else price
        self._graphs: OrderedDict[Rules, Graph] = OrderedDict()
        self._prices: OrderedDict[Hashable, Prices] = OrderedDict()
        self._paid: dict[tuple[object, ...], Paid] = {}

    def plan(
        self, source: Layout, target: Layout, shape: tuple[int, ...], options: SearchOptions = DEFAULT_OPTIONS
    ) -> Redistribution:
        """Return the best sequence of collectives from `source` to `target`.

        Equal costs are decided for the faster, then for fewer steps. An exchange stands for no move that a named
        collective makes too.

        Parameters
        ----------
        shape
            Global shape of the tensor.

        Raises
        ------
        LayoutError
            `layout.rank-mismatch`, `mesh.axis-unknown`; `redistribution.unreachable` when the target is partial by
            another reduction than sum and the source is not.
        """
        mesh = self.mesh
        room = source.local_elements(shape, mesh) + target.local_elements(shape, mesh)
        mesh.size_of(source.used | target.used)
        before, after = source.normal(mesh), target.normal(mesh)
        local = local_steps(before, after, shape, mesh)
        # They take least of everything but room.
        if local is not None and (not local or options.objective != "peak"):
            return Redistribution(source=source, target=target, shape=shape, steps=local)
        inner = frame(before, after, shape, mesh)
        search = self.search(inner, options)
        if options.objective == "peak":
            route = _cheapest(search, search.least_peak(), inner)
        else:
            route = _cheapest(search, room if options.limited else inf, inner)
        steps = self._steps(inner, route.moves)
        moved = Redistribution(source=source, target=target, shape=shape, steps=steps, gap=_gap(route, options))
        if options.limited and options.exchange and moved.peak_elements > room:
            summed = sum_exchange(before, after, shape, mesh)
            return moved if summed is None else Redistribution(source=source, target=target, shape=shape, steps=summed)
        return moved

    def pareto(
        self, source: Layout, target: Layout, shape: tuple[int, ...], options: SearchOptions = DEFAULT_OPTIONS
    ) -> tuple[Redistribution, ...]:
        """Return the redistributions of which no other is better in time, bytes, peak and steps, the fastest first.

        The objective plays no part, and the peak has no limit, since it is one of the four.

        Raises
        ------
        LayoutError
            As `plan`.
        """
        before, after = source.normal(self.mesh), target.normal(self.mesh)
        fastest = self.plan(source, target, shape, replace(options, objective="time", peak_limit=False))
        if not fastest.steps:
            return (fastest,)
        inner = frame(before, after, shape, self.mesh)
        search = self.search(inner, replace(options, objective="time"))
        ways = [path for path, _ in pareto_front(search, PARETO_WAYS)]
        return tuple(
            Redistribution(source=source, target=target, shape=shape, steps=self._steps(inner, path)) for path in ways
        ) or (fastest,)

    def search(self, inner: Frame, options: SearchOptions) -> Search:
        """Return the search for a way through a smaller problem."""
        graph = _kept(self._graphs, inner.rules, KEPT_GRAPHS) or self._new_graph(inner.rules)
        sizes = dict(inner.rules.sizes)
        count = prod(sizes.values())
        volume = prod(inner.rooms)
        key: Hashable = (inner.rules, options.objective, volume * inner.rest)
        if not inner.even:
            key = (inner.rules, options.objective, inner.shape, inner.prefixes, inner.kept)
        prices = _kept(self._prices, key, KEPT_SIZES)
        if prices is None:
            if len(self._paid) > KEPT_PRICES:
                self._paid.clear()
            prices = Prices(inner, graph, self.mesh, self.price, self._paid, options.objective)
            self._prices[key] = prices
        return Search(
            Question(
                graph=prices.graph, prices=prices, floor=self.floor,
                source=prices.graph.number(inner.source), target=prices.graph.number(inner.target), shape=inner.shape,
                # Where all divide, the parts of a dim are counted, so that all sizes share one table.
                rooms=(count,) * len(inner.rooms) if inner.even else inner.rooms,
                scale=volume * inner.rest // count ** len(inner.rooms) if inner.even else inner.rest,
                first=options.objective, exchange=options.exchange, budget=options.budget if len(sizes) > FEW else None,
                devices=self.mesh.device_count, sizes=sizes, even=inner.even,
            )
        )  # fmt: skip

    def _steps(self, inner: Frame, path: tuple[Move, ...]) -> tuple[Step, ...]:
        steps: list[Step] = []
        layout = inner.layout(inner.source)
        for move in path:
            steps.append(self._marked(step(inner, self.mesh, layout, move)))
            layout = steps[-1].target
        return tuple(steps)

    def _marked(self, made: Step) -> Step:
        """Return a step with the type in which it adds.

        A sum of unequal parts needs none: each rank gets the summands as they are, and adds them in float32.
        """
        adds = made.kind == "all_reduce" or (made.kind == "reduce_scatter" and even(made, self.mesh))
        return replace(made, added_in=self.added_in) if adds and made.source.reduce in ("sum", "mean") else made

    def _new_graph(self, rules: Rules) -> Graph:
        self._graphs[rules] = graph = Graph(rules)
        return graph


def plan_redistribution(
    source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh, price: Price,
    options: SearchOptions = DEFAULT_OPTIONS,
) -> Redistribution:  # fmt: skip
    """Return the best sequence of collectives from `source` to `target`: `Planner.plan` for a single time."""
    return Planner(mesh, price).plan(source, target, shape, options)


def _kept(store: OrderedDict[Key, Item], key: Key, size: int) -> Item | None:
    """Return what is stored under a key, as the last used, and drop the longest unused beyond `size`."""
    found = store.get(key)
    if found is not None:
        store.move_to_end(key)
    elif len(store) >= size:
        store.popitem(last=False)
    return found


def _cheapest(search: Search, limit: float, inner: Frame) -> Route:
    """Return the cheapest way within the limit, or within the least one that allows any."""
    while True:
        route, next_limit = search.cheapest(limit)
        if route is not None:
            return route
        if next_limit == inf:
            source, target = inner.layout(inner.source), inner.layout(inner.target)
            raise LayoutError(
                "redistribution.unreachable",
                f"No collectives lead from {source} to {target}: only partial sums can be made from other layouts, "
                f"not partial {target.reduce}.",
                "Use the value without partial axes.",
            )
        limit = next_limit


def sum_exchange(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> tuple[Step, ...] | None:
    """Return the one step that finishes and makes partial sums on the way; None where it does not apply.

    Its messages are counted one by one: beyond `MOST_SUMMING` ranks in a group that takes too long.
    """
    if not source.reduce == target.reduce == "sum":
        return None
    step = COLLECTIVES["sum_exchange"].step(source, shape, mesh, target=target)
    return (step,) if step.group_size <= MOST_SUMMING else None


def _gap(route: Route, options: SearchOptions) -> float:
    """Return by which part of its cost, as the objective counts it, a way may be above the best."""
    shift = 0 if options.objective in ("time", "peak") else SHIFT
    cost, least = route.cost >> shift, route.least >> shift
    return (cost - least) / cost if cost else 0.0


def local_steps(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> tuple[Step, ...] | None:
    """Return the steps where slices alone, or zero alone, lead to the target; None elsewhere.

    The slices into most parts come first, since they leave least for the others to copy.
    """
    same = (source.partial, source.reduce) == (target.partial, target.reduce)
    if same:
        if not refines(source.dims, target.dims):
            return None
        added = [
            (dim, after[len(before) :])
            for dim, (before, after) in enumerate(zip(source.dims, target.dims, strict=True))
            if len(after) > len(before)
        ]
        added.sort(key=lambda item: -mesh.size_of(item[1]))
        return _folded(source, shape, mesh, [("slice", axes, dim) for dim, axes in added])
    missing = tuple(a for a in mesh.names if a in target.partial and a not in source.used)
    if source.dims != target.dims or source.reduce != "sum" or target.reduce != "sum":
        return None
    if set(target.partial) != {*source.partial, *missing}:
        return None
    return _folded(source, shape, mesh, [("zero", missing, -1)])


def _folded(
    layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh, path: list[tuple[str, Axes, int]]
) -> tuple[Step, ...]:
    steps: list[Step] = []
    for kind, axes, dim in path:
        steps.append(COLLECTIVES[kind].step(layout, shape, mesh, axes=axes, dim=dim))
        layout = steps[-1].target
    return tuple(steps)
