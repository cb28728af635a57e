"""Where two holdings meet: one mesh and one shape on which both can be written, so that nothing moves on the way there.

The mesh is the common refinement of both. The shape has the cells of the reshape (`core.reshape`): a dim's axes go to
its cells major first, and where a cell is full before an axis is, the axis is split. A cell that merges dims has their
axes one behind the other. None of this is taken on trust: the parts of every rank are compared, since sizes that
divide do not make shards hold the right elements.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from ..collectives.holdings import same_parts
from ..core.crossing import Holding
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..core.refine import Refinement, refinable, refine
from ..core.reshape import Cell, Piece, cells

Places = tuple[tuple[tuple[int, int], ...], ...]
"""Per dim, the cells that it consists of and the size of its part of each, major first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Both holdings, written on one mesh and one shape."""

    source: Holding
    target: Holding


@lru_cache(maxsize=4096)
def meet(source: Holding, target: Holding) -> Meeting | None:
    """Return where two holdings meet, or None if they don't.

    Raises
    ------
    LayoutError
        `mesh.matrix-ranks` for different numbers of ranks, `reshape.elements`, `reshape.empty`, `handover.runs`.
    """
    both = on_one_mesh(source, target)
    if both is None:
        return None
    before, after = both
    if before.shape != after.shape:
        found = on_cells(before, after)
        if found is None:
            return None
        before, after = found
    if same_parts(source, before) and same_parts(target, after):
        return Meeting(source=before, target=after)
    return None


def on_one_mesh(source: Holding, target: Holding) -> tuple[Holding, Holding] | None:
    """Return both on the common refinement of their meshes, without axes of size 1; None if it does not exist."""
    matrix = tuple(size for _, size in target.mesh.axes)
    if not refinable(source.mesh, matrix):
        return None
    finer = refine(source.mesh, matrix)
    before = finer.rename(source.layout.normal(source.mesh))
    after = _on(target.layout.normal(target.mesh), target.mesh, finer)
    return (
        Holding(mesh=finer.mesh, shape=source.shape, layout=before),
        Holding(mesh=finer.mesh, shape=target.shape, layout=after),
    )


def on_cells(source: Holding, target: Holding) -> tuple[Holding, Holding] | None:
    """Return both on the shape of the cells of a reshape; cells of size 1 are left out."""
    kept = [cell for cell in cells(source.shape, target.shape) if cell.size != 1]
    shape = tuple(cell.size for cell in kept if isinstance(cell.size, int))
    before = _places(kept, len(source.shape), lambda cell: cell.before)
    after = _places(kept, len(target.shape), lambda cell: cell.after)
    while True:
        laid = []
        for holding, places in ((source, before), (target, after)):
            found = _spread(holding, places, len(shape))
            if found is None:
                return None
            if not isinstance(found, Layout):
                source, target = (_split_axis(one, *found) for one in (source, target))
                break
            laid.append(Holding(mesh=holding.mesh, shape=shape, layout=found))
        else:
            return laid[0], laid[1]


def _on(layout: Layout, mesh: DeviceMesh, finer: Refinement) -> Layout:
    """Return a layout of a mesh on its refinement."""
    matrix = tuple(size for _, size in mesh.axes)

    def renamed(axes: Axes) -> Axes:
        return tuple(part for axis in axes for part in finer.axes(matrix, mesh.names.index(axis)))

    return Layout(tuple(map(renamed, layout.dims)), renamed(layout.partial), layout.reduce)


def _places(kept: list[Cell], rank: int, side: Callable[[Cell], tuple[Piece, ...]]) -> Places:
    found: list[list[tuple[int, int]]] = [[] for _ in range(rank)]
    for position, cell in enumerate(kept):
        for dim, size in side(cell):
            assert isinstance(size, int)
            found[dim].append((position, size))
    return tuple(map(tuple, found))


def _spread(holding: Holding, places: Places, count: int) -> Layout | tuple[str, tuple[int, ...]] | None:
    """Return the layout on the cells, or an axis that has to be split and into which sizes, or None."""
    laid: list[Axes] = [()] * count
    for axes, cells_of_dim in zip(holding.layout.dims, places, strict=True):
        left = list(axes)
        for position, (cell, size) in enumerate(cells_of_dim, start=1):
            room, last = size, position == len(cells_of_dim)
            while left and (room > 1 or last):
                axis_size = holding.mesh.size(left[0])
                if axis_size > room and axis_size % room == 0 and not last:
                    return left[0], (room, axis_size // room)
                room = -(-room // axis_size)
                laid[cell] = (*laid[cell], left.pop(0))
        if left:
            return None
    return Layout(tuple(laid), holding.layout.partial, holding.layout.reduce)


def _split_axis(holding: Holding, axis: str, sizes: tuple[int, ...]) -> Holding:
    """Return a holding on a mesh of which one axis is split."""
    mesh, parts = holding.mesh.split(axis, sizes)
    return replace(holding, mesh=mesh, layout=holding.layout.rename(axis, parts))
