"""A tensor's way to another mesh over the same ranks, to another shape, or both: a sequence of *legs*.

A `Holding` says who has what: a layout on a mesh, of a tensor of some shape. Elements are counted in row-major order,
which a reshape keeps; so two holdings on as many ranks and of as many elements can be compared rank by rank.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from .collective import Step
from .layout import Layout
from .mesh import Axes, DeviceMesh
from .slices import Ranges, ranges

VIEW = "view"
HANDOVER = "handover"


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A tensor of global `shape` that lies as `layout` on the ranks of `mesh`."""

    mesh: DeviceMesh
    shape: tuple[int, ...]
    layout: Layout

    def part(self, rank: int) -> Ranges:
        """Return `start, stop` of every dim of what a rank holds."""
        return ranges(self.layout, self.shape, self.mesh, rank)

    def local_shape(self, rank: int) -> tuple[int, ...]:
        """Return the shape of what a rank holds; rank 0 holds the most."""
        return self.layout.shape_of(self.shape, self.mesh, rank)

    def __str__(self) -> str:
        return f"{self.layout} of {'×'.join(map(str, self.shape)) or 'a scalar'} on {self.mesh}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One move of a crossing.

    Parameters
    ----------
    kind
        `view`: every rank reads what it holds in another shape or by other axes; nothing moves. `handover`: the direct
        exchange from one holding to any other. Else a key of the table `COLLECTIVES`, with its `step`.
    """

    kind: str
    source: Holding
    target: Holding
    step: Step | None = None

    @property
    def axes(self) -> Axes:
        """Mesh axes of its group: of a handover all, of a view none."""
        return self.step.axes if self.step else self.source.mesh.names if self.kind == HANDOVER else ()

    def __str__(self) -> str:
        return str(self.step) if self.step else f"{self.kind} to {self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """Ordered legs from `source` to `target`; each begins where the one before it ends."""

    source: Holding
    target: Holding
    legs: tuple[Leg, ...]

    @property
    def peak_elements(self) -> int:
        """Largest number of elements live on a rank at any leg: its input and output together.

        Views, and slices before another leg, take no room and keep their input until that leg is done.
        """
        peak = held = 0
        moves = [leg for leg in self.legs if leg.kind != VIEW]
        for position, leg in enumerate(moves, start=1):
            held = held or prod(leg.source.local_shape(0))
            if leg.kind != "slice" or position == len(moves):
                peak, held = max(peak, held + prod(leg.target.local_shape(0))), 0
        return peak

    def __str__(self) -> str:
        return f"{self.source} → {self.target}: {', then '.join(map(str, self.legs)) or 'nothing to move'}"
