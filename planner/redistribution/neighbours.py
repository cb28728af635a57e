"""The layouts that one collective leads to: the edges of the search graph.

A layout is a bare tuple here (`State`), since a search looks at thousands of them. Left out of the
graph is what can't be part of a cheapest sequence where all links are alike (a test compares with the
whole graph); where they differ, it costs little:

- axes that source and target hold alike on the major side of a dim stay there;
- axes that neither layout uses are touched only when partial axes change, by slices before the first
  change, which they make smaller;
- of several dims that hold what they held and will hold, only the first takes axes: since no price
  depends on the dim, the others are alike;
- nothing is padded where source and target are not partial; zero is for axes that are partial in the
  target;
- an exchange leads to the target, or to where only zero or one pad is missing (so a target that is
  partial over two more axes can cost more than it has to); it is no edge from where
  one gather or all-to-all or nothing but slices lead there too, nor after a slice, without which it
  would receive no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, permutations
from math import prod
from typing import NamedTuple

from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh

State = tuple[tuple[Axes, ...], Axes, str]
"""Dims, partial axes and reduction, as in `Layout`."""

Rooms = list[tuple[int, int]]


class Move(NamedTuple):
    """One edge: a collective with its arguments, and the state and local elements after it."""

    kind: str
    axes: Axes
    dim: int
    to_dim: int
    state: State
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """The part of the search graph that matters between two layouts.

    Parameters
    ----------
    sizes
        Size of every mesh axis.
    source_partial
        Partial axes of the source.
    active, idle
        Axes that a slice may use, in mesh order: those that source or target use; all others.
    fixed
        How many axes on the major side of each dim stay where they are.
    likeness
        Dims of equal number have room for the same axes.
    """

    shape: tuple[int, ...]
    sizes: Mapping[str, int]
    target: State
    source_partial: Axes
    active: Axes
    idle: Axes
    fixed: tuple[int, ...]
    likeness: tuple[int, ...]


def state_of(layout: Layout) -> State:
    """Return a layout as a bare tuple."""
    return layout.dims, layout.partial, layout.reduce


def space(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Space:
    """Return the search space between two layouts without axes of size 1."""
    same_partial = source.partial == target.partial
    used = source.used | target.used
    fixed = tuple(_common(a, b) for a, b in zip(source.dims, target.dims, strict=True))
    rooms = [size // mesh.size_of(axes[:common]) for size, axes, common in zip(shape, target.dims, fixed, strict=True)]
    return Space(
        shape=shape,
        sizes=dict(mesh.axes),
        target=state_of(target),
        source_partial=source.partial,
        active=tuple(a for a, n in mesh.axes if n > 1 and a in used),
        idle=tuple(a for a, n in mesh.axes if n > 1 and a not in used and not same_partial),
        fixed=fixed,
        # A dim that all devices together divide has room for any axes.
        likeness=tuple(0 if room % mesh.device_count == 0 else room for room in rooms),
    )


def moves(space: Space, state: State, elements: int, *, exchange: bool) -> Iterator[Move]:
    """Yield every collective that is applicable to a state with this many local elements."""
    dims, partial, _ = state
    room = _rooms(space, dims)
    if exchange:
        yield from _exchanges(space, state)
    for axes in _subsets(partial):
        left = tuple(a for a in partial if a not in axes)
        yield Move("all_reduce", axes, -1, -1, (dims, left, _reduce(state, left)), elements)
    if state[2] == "sum":
        for axes, count in _ordered(space, partial):
            left = tuple(a for a in partial if a not in axes)
            for dim, after in _appended(dims, room, axes, count):
                after_state = (after, left, "sum")
                yield Move("reduce_scatter", axes, dim, -1, after_state, elements // count)
    yield from _gathers(space, state, elements, room)
    taken = {a for axes in dims for a in axes} | set(partial)
    usable = space.active + (space.idle if partial == space.source_partial else ())
    free = tuple(a for a in usable if a not in taken)
    for axes, count in _ordered(space, free):
        for dim, after in _appended(dims, room, axes, count):
            yield Move("slice", axes, dim, -1, (after, partial, state[2]), elements // count)
    if state[2] == space.target[2] == "sum":
        for axes in _subsets(tuple(a for a in free if a in space.target[1])):
            more = tuple(sorted((*partial, *axes)))
            yield Move("zero", axes, -1, -1, (dims, more, "sum"), elements)


def _gathers(space: Space, state: State, elements: int, room: Rooms) -> Iterator[Move]:
    """Yield what takes axes from the minor side of a dim: all-gather, all-to-all, pad."""
    dims, partial, reduce = state
    for dim, held in enumerate(dims):
        for length in range(1, len(held) - space.fixed[dim] + 1):
            axes = held[len(held) - length :]
            count = prod(space.sizes[a] for a in axes)
            without = (*dims[:dim], held[: len(held) - length], *dims[dim + 1 :])
            after = (without, partial, reduce)
            yield Move("all_gather", axes, dim, -1, after, elements * count)
            for to_dim, moved in _appended(without, room, axes, count):
                if to_dim != dim:
                    after = (moved, partial, reduce)
                    yield Move("all_to_all", axes, dim, to_dim, after, elements)
            if reduce == "sum" and (space.source_partial or space.target[1]):
                after = (without, tuple(sorted((*partial, *axes))), "sum")
                yield Move("pad", axes, dim, -1, after, elements * count)


def _exchanges(space: Space, state: State) -> Iterator[Move]:
    _, partial, reduce = state
    dims, wanted, wanted_reduce = space.target
    if partial and (not set(partial) <= set(wanted) or reduce != wanted_reduce):
        return
    missing = tuple(axis for axis in wanted if axis not in partial)
    goals = [dims]
    if missing:
        room = [
            (dim, size // prod(space.sizes[a] for a in axes))
            for dim, (size, axes) in enumerate(zip(space.shape, dims, strict=True))
        ]
        count = prod(space.sizes[a] for a in missing)
        goals += [after for _, after in _appended(dims, room, missing, count)]
    for goal in goals:
        if not _is_named(state[0], goal):
            used = prod(space.sizes[a] for axes in goal for a in axes)
            elements = prod(space.shape) // used
            yield Move("exchange", (), -1, -1, (goal, partial, reduce), elements)


def _rooms(space: Space, dims: tuple[Axes, ...]) -> Rooms:
    """Return the dims that may take more axes, each with its local size."""
    rooms = []
    seen = set()
    for dim, axes in enumerate(dims):
        if axes == space.target[0][dim] and len(axes) == space.fixed[dim]:
            if space.likeness[dim] in seen:
                continue
            seen.add(space.likeness[dim])
        rooms.append((dim, space.shape[dim] // prod(space.sizes[a] for a in axes)))
    return rooms


def _appended(dims: tuple[Axes, ...], room: Rooms, axes: Axes, count: int) -> Iterator[tuple[int, tuple[Axes, ...]]]:
    """Yield every dim that the axes still divide, with the dims after appending them there."""
    for dim, size in room:
        if size % count == 0:
            yield dim, (*dims[:dim], dims[dim] + axes, *dims[dim + 1 :])


def _ordered(space: Space, axes: Axes) -> Iterator[tuple[Axes, int]]:
    """Yield every ordered choice of one or more axes, with the product of their sizes."""
    for length in range(1, len(axes) + 1):
        for chosen in permutations(axes, length):
            yield chosen, prod(space.sizes[a] for a in chosen)


def _subsets(axes: Axes) -> Iterator[Axes]:
    """Yield every set of one or more axes, in the order given."""
    for length in range(1, len(axes) + 1):
        yield from combinations(axes, length)


def _reduce(state: State, left: Axes) -> str:
    return state[2] if left else "sum"


def _common(left: Axes, right: Axes) -> int:
    """Return how many axes two dims have in common on their major side."""
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def _is_named(dims: tuple[Axes, ...], goal: tuple[Axes, ...]) -> bool:
    """Return whether slices, one all-gather or one all-to-all lead from `dims` to `goal`."""
    if refines(dims, goal):
        return True
    other = [(a, b) for a, b in zip(dims, goal, strict=True) if a != b]
    taken = [a[len(b) :] for a, b in other if a[: len(b)] == b]
    given = [b[len(a) :] for a, b in other if b[: len(a)] == a]
    return len(taken) == 1 and len(other) == 1 + len(given) and given in ([], taken)


def refines(dims: tuple[Axes, ...], goal: tuple[Axes, ...]) -> bool:
    """Return whether slices alone lead from `dims` to `goal`."""
    return all(b[: len(a)] == a for a, b in zip(dims, goal, strict=True))
