"""The layouts that one collective leads to: the edges of the search graph.

A layout is a bare tuple here (`State`), since a search looks at thousands of them. What is legal follows from the
layout alone: taking axes from the minor side of a dim or putting them there is legal whatever the sizes, since uneven
sizes are cut into nested chunks. Left out of the graph is what can't be part of a best sequence:

- nothing is padded where neither source nor target is partial, and only what the target keeps partial is zeroed;
- among more than `ORDERED` axes, collectives over more than two axes or on several dims, and permutes: they are too
  many, so that a search among so many axes is not exhaustive.

The exchange is no edge of this graph, since it leads everywhere: `route` adds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, product
from math import prod
from typing import NamedTuple

from ..core.layout import Layout
from ..core.mesh import Axes

Dims = tuple[Axes, ...]
State = tuple[Dims, Axes, str]
"""Dims, partial axes and reduction, as in `Layout`."""

ORDERED = 4


class Move(NamedTuple):
    """One edge: a collective with its arguments, and the state after it."""

    kind: str
    axes: Axes
    dim: int
    to_dim: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the moves of one search graph may use.

    Parameters
    ----------
    sizes
        Size of every axis that may move, in mesh order.
    width
        Number of dims.
    pads
        Whether shards may become partial sums.
    zeros
        Axes over which whole values may become partial sums.
    """

    sizes: tuple[tuple[str, int], ...]
    width: int
    pads: bool
    zeros: Axes


def state_of(layout: Layout) -> State:
    """Return a layout as a bare tuple."""
    return layout.dims, layout.partial, layout.reduce


def moves(rules: Rules, state: State) -> Iterator[Move]:
    """Yield every collective but the exchange that is applicable to a state."""
    dims, partial, reduce = state
    sizes = dict(rules.sizes)
    most = ORDERED if len(sizes) <= ORDERED else 2
    for axes in _subsets(partial):
        yield Move("all_reduce", axes, -1, -1, _less(state, axes))
    for axes in _ordered(partial, most):
        _, left, remaining = _less(state, axes)
        for dim in range(rules.width):
            yield Move("reduce_scatter", axes, dim, -1, (_append(dims, dim, axes), left, remaining))
        for after in _spread(dims, axes, range(rules.width)):
            yield Move("reduce_scatter", axes, -1, -1, (after, left, remaining))
    yield from _from_shards(rules, state)
    if len(sizes) <= ORDERED:
        yield from _from_several(rules, state)
        yield from _permutes(sizes, state)
    taken = {a for axes in dims for a in axes} | set(partial)
    free = tuple(a for a, _ in rules.sizes if a not in taken)
    for axes in _ordered(free, most):
        for dim in range(rules.width):
            yield Move("slice", axes, dim, -1, (_append(dims, dim, axes), partial, reduce))
    if reduce == "sum":
        for axes in _subsets(tuple(a for a in free if a in rules.zeros)):
            yield Move("zero", axes, -1, -1, (dims, tuple(sorted((*partial, *axes))), "sum"))


def _from_shards(rules: Rules, state: State) -> Iterator[Move]:
    """Yield what takes axes from the minor side of a dim: all-gather, all-to-all, pad."""
    dims, partial, reduce = state
    for dim, held in enumerate(dims):
        for length in range(1, len(held) + 1):
            axes = held[len(held) - length :]
            without = (*dims[:dim], held[: len(held) - length], *dims[dim + 1 :])
            yield Move("all_gather", axes, dim, -1, (without, partial, reduce))
            for to_dim in range(rules.width):
                if to_dim != dim:
                    yield Move("all_to_all", axes, dim, to_dim, (_append(without, to_dim, axes), partial, reduce))
            if reduce == "sum" and rules.pads:
                yield Move("pad", axes, dim, -1, (without, tuple(sorted((*partial, *axes))), "sum"))


def _from_several(rules: Rules, state: State) -> Iterator[Move]:
    """Yield the all-gathers of several dims at once, and the all-to-alls that take from or give to several."""
    dims, partial, reduce = state
    for cuts in product(*(range(len(axes) + 1) for axes in dims)):
        taken = tuple(a for axes, n in zip(dims, cuts, strict=True) for a in axes[len(axes) - n :])
        cut = [dim for dim, n in enumerate(cuts) if n]
        without = tuple(axes[: len(axes) - n] for axes, n in zip(dims, cuts, strict=True))
        if len(cut) > 1:
            yield Move("all_gather", taken, -1, -1, (without, partial, reduce))
        others = [dim for dim in range(rules.width) if dim not in cut]
        if len(taken) < 2:
            continue
        for order in permutations(taken):
            for dim in others:
                if len(cut) > 1 or order != taken:
                    yield Move("all_to_all", taken, -1, -1, (_append(without, dim, order), partial, reduce))
            for after in _spread(without, order, others):
                yield Move("all_to_all", taken, -1, -1, (after, partial, reduce))


def _spread(dims: Dims, axes: Axes, onto: Sequence[int]) -> Iterator[Dims]:
    """Yield the ways to append ordered axes to several dims, runs of them in the order of the dims."""
    for count in range(2, min(len(axes), len(onto)) + 1):
        for chosen in combinations(onto, count):
            for stops in combinations(range(1, len(axes)), count - 1):
                after = list(dims)
                for dim, start, stop in zip(chosen, (0, *stops), (*stops, len(axes)), strict=True):
                    after[dim] += axes[start:stop]
                yield tuple(after)


def _permutes(sizes: Mapping[str, int], state: State) -> Iterator[Move]:
    """Yield the states that cut every dim into as many parts over other axes: whole shards change ranks."""
    dims, partial, reduce = state
    usable = tuple(a for a in sizes if a not in partial)
    counts = [prod(sizes[a] for a in axes) for axes in dims]
    for after in _cut(sizes, usable, counts):
        if after != dims:
            axes = moved(sizes, dims, after)
            yield Move("permute", axes, -1, -1, (after, partial, reduce))


def _cut(sizes: Mapping[str, int], usable: Axes, counts: list[int]) -> Iterator[Dims]:
    """Yield every choice of ordered axes for each dim whose sizes multiply to its count."""
    if not counts:
        yield ()
        return
    for axes in _factors(sizes, usable, counts[0]):
        rest = tuple(a for a in usable if a not in axes)
        for others in _cut(sizes, rest, counts[1:]):
            yield (axes, *others)


def _factors(sizes: Mapping[str, int], usable: Axes, count: int) -> Iterator[Axes]:
    if count == 1:
        yield ()
        return
    for axis in usable:
        if count % sizes[axis] == 0:
            rest = tuple(a for a in usable if a != axis)
            for others in _factors(sizes, rest, count // sizes[axis]):
                yield (axis, *others)


def roles(sizes: Mapping[str, int], dims: Dims) -> dict[str, tuple[int, int]]:
    """Return, for every axis on a dim, the dim and into how many parts the axes before it cut it."""
    found = {}
    for dim, axes in enumerate(dims):
        before = 1
        for axis in axes:
            found[axis] = dim, before
            before *= sizes[axis]
    return found


def moved(sizes: Mapping[str, int], before: Dims, after: Dims) -> Axes:
    """Return the axes that have another role after than before, in mesh order."""
    old, new = roles(sizes, before), roles(sizes, after)
    return tuple(a for a in sizes if old.get(a) != new.get(a))


def _less(state: State, axes: Axes) -> State:
    dims, partial, reduce = state
    left = tuple(a for a in partial if a not in axes)
    return dims, left, reduce if left else "sum"


def _append(dims: Dims, dim: int, axes: Axes) -> Dims:
    return (*dims[:dim], dims[dim] + axes, *dims[dim + 1 :])


def _ordered(axes: Axes, most: int) -> Iterator[Axes]:
    """Yield the ordered choices of one to `most` axes."""
    for length in range(1, min(len(axes), most) + 1):
        yield from permutations(axes, length)


def _subsets(axes: Axes) -> Iterator[Axes]:
    """Yield every set of one or more axes, in the order given."""
    for length in range(1, len(axes) + 1):
        yield from combinations(axes, length)
