"""The device mesh at run time: this rank's coordinates and the process groups over sets of axes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import product
from math import prod
from typing import Any, TypeVar

import torch
import torch.distributed as dist

Axes = tuple[str, ...]
Found = TypeVar("Found")


class Mesh:
    """Ordered named axes over the ranks of the default process group, row-major.

    Parameters
    ----------
    sizes
        Axis → size; the product is the number of ranks.
    device
        Where this rank computes.

    Attributes
    ----------
    log
        If a list, each communication appends (kind, axes, elements passed in, elements that come out).
    compute
        Element type that the model computes in.
    step, sequence, last
        Where training is: the optimizer step, the first sequence of the microbatch in the step's batch, and whether
        this is the step's last microbatch.
    """

    compute: torch.dtype = torch.float32

    def __init__(self, sizes: dict[str, int], device: torch.device | str = "cpu") -> None:
        ranks = prod(sizes.values())
        world = dist.get_world_size() if dist.is_initialized() else 1
        if ranks != world:
            raise ValueError(f"the mesh {sizes} needs {ranks} ranks, but {world} are running")
        self.sizes = dict(sizes)
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.device = torch.device(device)
        self.log: list[tuple[str, Axes, int, int]] | None = None
        self.step, self.sequence, self.last = 0, 0, False
        self._groups: dict[Axes, dist.ProcessGroup] = {}
        self._found: dict[object, Any] = {}

    def size(self, *axes: str) -> int:
        """Return the number of ranks along several axes."""
        return prod([self.sizes[axis] for axis in axes])

    def coordinate(self, axis: str, rank: int | None = None) -> int:
        """Return the coordinate of this rank, or of another, along one axis."""
        names = list(self.sizes)
        stride = prod([self.sizes[name] for name in names[names.index(axis) + 1 :]])
        return (self.rank if rank is None else rank) // stride % self.sizes[axis]

    def index(self, *axes: str, rank: int | None = None) -> int:
        """Return the position along several axes, the first one major."""
        position = 0
        for axis in axes:
            position = position * self.sizes[axis] + self.coordinate(axis, rank)
        return position

    def chunk(self, size: int, *axes: str, rank: int | None = None) -> tuple[int, int]:
        """Return `start, stop` of the indices that this rank, or another, holds of a dim of global `size`.

        Each axis in turn cuts what is left into chunks of one length, rounded up; the last may be shorter or empty.
        """
        start, stop = 0, size
        for axis in axes:
            length = -(-(stop - start) // self.sizes[axis])
            start = min(start + self.coordinate(axis, rank) * length, stop)
            stop = min(start + length, stop)
        return start, stop

    def start(self, size: int, *axes: str) -> int:
        """Return the first index that this rank holds of a dim of global `size`."""
        return self.chunk(size, *axes)[0]

    def length(self, size: int, *axes: str) -> int:
        """Return how many indices this rank holds of a dim of global `size`."""
        start, stop = self.chunk(size, *axes)
        return stop - start

    def ranks(self, axes: Axes) -> list[int]:
        """Return the ranks of this rank's group over `axes`, by their position along `axes`."""
        same = [axis for axis in self.sizes if axis not in axes]
        mine = self.index(*same)
        members = [r for r in range(self.size(*self.sizes)) if self.index(*same, rank=r) == mine]
        return sorted(members, key=lambda r: self.index(*axes, rank=r))

    def group(self, axes: Axes) -> dist.ProcessGroup:
        """Return the process group over `axes`; all ranks must ask for the same groups in the same order."""
        key = tuple(axis for axis in self.sizes if axis in axes)
        if key not in self._groups:
            others = [axis for axis in self.sizes if axis not in key]
            names = list(self.sizes)
            groups = []
            for fixed in product(*(range(self.sizes[axis]) for axis in others)):
                at = dict(zip(others, fixed, strict=True))
                members = product(*(range(self.sizes[n]) if n in key else [at[n]] for n in names))
                groups.append([self._rank_at(coordinates) for coordinates in members])
            self._groups[key], _ = dist.new_subgroups_by_enumeration(groups)
        return self._groups[key]

    def order(self, axes: Axes) -> list[int] | None:
        """Return, per position along `axes`, the place in the process group; None if they are the same."""
        members = self.ranks(axes)
        places = [sorted(members).index(rank) for rank in members]
        return None if places == sorted(places) else places

    def once(self, key: Hashable, find: Callable[[Mesh], Found]) -> Found:
        """Return what `find` finds for this mesh, looked for once for each key."""
        if key not in self._found:
            self._found[key] = find(self)
        found: Found = self._found[key]
        return found

    def close(self) -> None:
        """Destroy the process groups that this mesh made."""
        for group in self._groups.values():
            dist.destroy_process_group(group)
        self._groups.clear()

    def _rank_at(self, coordinates: tuple[int, ...]) -> int:
        rank = 0
        for size, coordinate in zip(self.sizes.values(), coordinates, strict=True):
            rank = rank * size + coordinate
        return rank
