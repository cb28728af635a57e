"""Where a direct exchange is worth trying: it leads everywhere, so that its edges are not those of the search graph."""

from __future__ import annotations

from itertools import permutations
from math import prod

from ..core.mesh import Axes
from .moves import Dims


def unpadded(goal: Dims, missing: Axes) -> list[Dims]:
    """Return the goal, and the goal with missing axes on the minor side of dims, from where pads lead to it."""
    goals = {goal: None}
    for order in permutations(missing):
        found = [goal]
        for axis in order:
            found += [(*dims[:at], (*dims[at], axis), *dims[at + 1 :]) for dims in found for at in range(len(dims))]
        goals |= dict.fromkeys(found)
    return list(goals)


def is_named(sizes: dict[str, int], dims: Dims, goal: Dims) -> bool:
    """Return whether one all-gather, one all-to-all or a permute moves as much from `dims` to `goal` as an exchange.

    They do where all parts are equal; where not, an exchange can do with fewer messages.
    """
    other = [(a, b) for a, b in zip(dims, goal, strict=True) if a != b]
    taken = [a[len(b) :] for a, b in other if a[: len(b)] == b]
    given = [b[len(a) :] for a, b in other if b[: len(a)] == a]
    if len(taken) + len(given) == len(other):
        return not given or {a for axes in taken for a in axes} == {a for axes in given for a in axes}
    before, after = ([prod(sizes[a] for a in axes) for axes in side] for side in (dims, goal))
    return before == after


def refines(dims: Dims, goal: Dims) -> bool:
    """Return whether slices alone lead from `dims` to `goal`."""
    return all(b[: len(a)] == a for a, b in zip(dims, goal, strict=True))
