"""The common refinement of device grids: one mesh on which layouts over different grids can be written.

Ranks of every grid are row-major, so a grid is a chain of strides: (2, 4) cuts the ranks at strides 4 and 1. Two grids
have a common refinement iff all their strides together still form a chain in which each divides the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import prod
from operator import mul

from ..errors import LayoutError
from .layout import Layout
from .mesh import Axes, DeviceMesh

Matrix = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refinement:
    """A mesh that is finer than another mesh and than some matrices.

    Parameters
    ----------
    mesh
        The finer mesh; equal to the old one if nothing had to be split.
    splits
        Axis of the old mesh, sizes and names of its parts, of those that were split.
    """

    mesh: DeviceMesh
    splits: tuple[tuple[str, tuple[int, ...], Axes], ...]

    def rename(self, layout: Layout) -> Layout:
        """Return a layout of the old mesh on the finer one."""
        for axis, _, parts in self.splits:
            layout = layout.rename(axis, parts)
        return layout

    def axes(self, matrix: Matrix, position: int) -> Axes:
        """Return the axes that make up one dim of a matrix, major first; `position` counts from the left."""
        low = prod(matrix[position + 1 :])
        high = low * matrix[position]
        return tuple(
            name for name, size in self.mesh.axes if size > 1 and low <= self.mesh.stride(name) < high
        )  # fmt: skip


def refine(mesh: DeviceMesh, *matrices: Matrix) -> Refinement:
    """Return the coarsest mesh on which the mesh's axes and the dims of all matrices can be written.

    Raises
    ------
    LayoutError
        `mesh.matrix-ranks` if a matrix has another number of ranks, `mesh.no-refinement` if there is none.
    """
    chain = _chain(mesh, matrices)
    clash = _clash(chain)
    if clash:
        low, high = clash
        others = " and ".join(_shown(matrix) for matrix in matrices)
        raise LayoutError(
            "mesh.no-refinement",
            f"The mesh {mesh} and {others} have no common refinement: one counts ranks in runs of {low}, the other "
            f"in runs of {high} ({high} % {low} = {high % low}).",
            "Use sizes that divide each other, or another mesh.",
        )
    splits = []
    finer = mesh
    for name, size in mesh.axes:
        stride = mesh.stride(name)
        inside = [cut for cut in chain if stride <= cut <= stride * size]
        sizes = tuple(reversed([high // low for low, high in pairwise(inside)]))
        if len(sizes) > 1:
            finer, parts = finer.split(name, sizes)
            splits.append((name, sizes, parts))
    return Refinement(mesh=finer, splits=tuple(splits))


def refinable(mesh: DeviceMesh, *matrices: Matrix) -> bool:
    """Return whether the mesh and all matrices, of as many ranks, have a common refinement."""
    return _clash(_chain(mesh, matrices)) is None


def _chain(mesh: DeviceMesh, matrices: tuple[Matrix, ...]) -> list[int]:
    """Return the numbers of ranks in a run of equal coordinates, of all grids, from the least."""
    cuts = _cuts(size for _, size in mesh.axes)
    for matrix in matrices:
        if prod(matrix) != mesh.device_count:
            raise LayoutError(
                "mesh.matrix-ranks",
                f"The device matrix {_shown(matrix)} has {prod(matrix)} ranks, the mesh {mesh} has "
                f"{mesh.device_count}.",
                f"Use sizes whose product is {mesh.device_count}.",
            )
        cuts |= _cuts(matrix)
    return sorted(cuts)


def _clash(chain: list[int]) -> tuple[int, int] | None:
    return next(((low, high) for low, high in pairwise(chain) if high % low), None)


def _cuts(sizes: Iterable[int]) -> set[int]:
    """Return the numbers of ranks in a run of equal coordinates, for every dim and for all."""
    return {1, *accumulate(reversed(tuple(sizes)), mul)}


def _shown(matrix: Matrix) -> str:
    return f"({', '.join(map(str, matrix))})"
