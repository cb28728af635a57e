"""The cheapest price by trying everything: all layouts, all collectives with all arguments.

It knows nothing of how the search that it is held against prunes: it slices and pads axes that
nobody uses, undoes reductions, goes in circles. Only the exchange is the direct one: nothing but zero
and pad comes after it. Walks are tried by their length.
"""

from collections import defaultdict
from itertools import combinations, permutations
from math import inf

from planner.collectives import COLLECTIVES
from planner.core.collective import Step
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from planner.redistribution.prices import Price

Edges = dict[Layout, list[tuple[Step, float]]]
Spot = tuple[Layout, int, bool]
"""A layout, what it is a view of, and whether the exchange is done."""


def all_layouts(mesh: DeviceMesh, shape: tuple[int, ...], reduces: tuple[str, ...] = ("sum",)) -> list[Layout]:
    """Return every layout of a tensor."""
    found = {Layout.replicated(len(shape))}
    for axis in mesh.names:
        found |= {
            layout.with_dim(dim, (*layout.dims[dim][:at], axis, *layout.dims[dim][at:]))
            for layout in found
            for dim in range(len(shape))
            for at in range(len(layout.dims[dim]) + 1)
        } | {
            Layout(layout.dims, (*layout.partial, axis), reduce)
            for layout in found
            for reduce in ({layout.reduce} if layout.partial else reduces)
        }
    return sorted(found, key=str)


def all_steps(layout: Layout, nodes: list[Layout], shape: tuple[int, ...], mesh: DeviceMesh) -> list[Step]:
    """Return every collective that applies to a layout and leads to one of the nodes."""
    names = [p for n in range(1, len(mesh.names) + 1) for p in permutations(mesh.names, n)]
    sets = [c for n in range(1, len(mesh.names) + 1) for c in combinations(mesh.names, n)]
    dims = range(len(shape))
    targeted = ("exchange", "permute", "all_gather", "reduce_scatter", "all_to_all")
    tries = [(kind, {"target": node}) for kind in targeted for node in nodes]
    tries += [("exchange", {"target": node, "axes": axes}) for node in nodes for axes in sets]
    tries += [(kind, {"axes": axes}) for kind in ("all_reduce", "zero") for axes in sets]
    tries += [
        (kind, {"axes": axes, "dim": dim})
        for kind in ("all_gather", "pad", "reduce_scatter", "slice")
        for axes in names
        for dim in dims
    ]
    tries += [
        ("all_to_all", {"axes": axes, "dim": dim, "to_dim": to_dim})
        for axes in names
        for dim in dims
        for to_dim in dims
    ]
    steps = []
    for kind, arguments in tries:
        try:
            steps.append(COLLECTIVES[kind].step(layout, shape, mesh, **arguments))  # type: ignore[arg-type]
        except LayoutError:
            continue
    return steps


def graph(nodes: list[Layout], shape: tuple[int, ...], mesh: DeviceMesh, price: Price) -> Edges:
    """Return the priced steps out of every layout."""
    return {x: [(s, price(s)) for s in all_steps(x, nodes, shape, mesh)] for x in nodes}


def cheapest(edges: Edges, source: Layout, limit: float, length: int) -> dict[Layout, float]:
    """Return the least price to every layout by at most `length` steps within a peak.

    A slice before another step is a view: it takes no room and keeps its input until that step is
    done.
    """
    done = {source: 0.0}
    reached: dict[Spot, float] = {(source, 0, False): 0.0}
    for _ in range(length):
        after: dict[Spot, float] = defaultdict(lambda: inf)
        for (layout, held, ending), cost in reached.items():
            for step, price in edges[layout]:
                if ending and step.kind not in {"pad", "zero"}:
                    continue
                base = held or step.source_elements
                fits = base + step.target_elements <= limit
                if fits:
                    done[step.target] = min(done.get(step.target, inf), cost + price)
                if fits or step.kind == "slice":
                    held_after = base if step.kind == "slice" else 0
                    spot = (step.target, held_after, ending or step.kind == "exchange")
                    after[spot] = min(after[spot], cost + price)
        reached = dict(after)
    return done
