"""The redistributions of which no other is better in every way: in time, bytes received, peak and number of steps.

The search is that of `route` with a price of four parts, of which the peak is a maximum and the others are sums. A spot
keeps every way to it that none is better than in all four; ways are taken up by their time and what they have left at
least.
"""

from __future__ import annotations

from heapq import heappop, heappush
from operator import itemgetter

from .moves import Move
from .prices import Edge
from .route import Search, Spot

Worth = tuple[int, int, int, int]
"""Femtoseconds, parts of an element received, peak in elements, steps: less is better."""


def pareto_front(search: Search, most: int) -> list[tuple[tuple[Move, ...], Worth]]:
    """Return the ways that none is better than in every respect, the fastest first.

    Parameters
    ----------
    search
        A search by time.
    most
        Ways to spots that may be followed at most; the best so far are the answer then.
    """
    goal = search.question.target
    start: Spot = (search.question.source, 0)
    nothing: Worth = (0, 0, 0, 0)
    kept: dict[Spot, list[Worth]] = {start: [nothing]}
    done: list[tuple[tuple[Move, ...], Worth]] = []
    queue: list[tuple[int, int, Worth, Spot, tuple[Move, ...]]] = [(0, 0, nothing, start, ())]
    order = 0
    while queue and order < most:
        _, _, worth, spot, path = heappop(queue)
        if spot[0] == goal:
            done.append((path, worth))
            continue
        if worth not in kept[spot]:
            continue
        node, viewed = spot
        here = viewed or search.question.prices.elements(node)
        for edge in search.every_edge(node, viewed):
            view = edge.move.kind == "slice" and edge.node != goal
            reached: Spot = (edge.node, here if view else 0)
            after = _after(worth, edge, 0 if view else here + edge.elements)
            if any(_covers(other, _at_least(search, edge.node, after)) for other in kept.get((goal, 0), [])):
                continue
            if _keep(kept.setdefault(reached, []), after):
                order += 1
                least = after[0] + search.bounds[edge.node]
                heappush(queue, (least, order, after, reached, (*path, edge.move)))
    front = kept.get((goal, 0), [])
    return sorted(((path, worth) for path, worth in done if worth in front), key=itemgetter(1))


def _after(worth: Worth, edge: Edge, peak: int) -> Worth:
    time, received, highest, steps = worth
    return time + edge.paid.time, received + edge.paid.received, max(highest, peak), steps + 1


def _at_least(search: Search, node: int, worth: Worth) -> Worth:
    """Return the least that a way can come to that is worth this at a layout."""
    lacks = search.lacking[node]
    time, received, peak, steps = worth
    return time + search.bounds[node], received + lacks * search.question.devices, peak, steps + (lacks > 0)


def _keep(kept: list[Worth], worth: Worth) -> bool:
    """Add a worth and drop what it covers; return False if it is covered itself."""
    if any(_covers(other, worth) for other in kept):
        return False
    kept[:] = [other for other in kept if not _covers(worth, other)]
    kept.append(worth)
    return True


def _covers(left: Worth, right: Worth) -> bool:
    return left[0] <= right[0] and left[1] <= right[1] and left[2] <= right[2] and left[3] <= right[3]
