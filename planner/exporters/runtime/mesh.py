"""The device mesh at run time: this rank's coordinates and the process groups over sets of axes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from datetime import timedelta
from itertools import product
from math import prod
from typing import Any, TypeVar

import torch
import torch.distributed as dist

Axes = tuple[str, ...]
Line = tuple[str, tuple[int, ...]]
"""An axis and some coordinates along it: ranks that differ in nothing else."""
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
        If a list, each communication appends (kind, axes, bytes passed in, bytes that come out).
    compute
        Element type that the model computes in.
    gradient
        Element type that gradients of parameters are reduced and added up in; None for that of the parameters.
    timeout
        How long a collective may take in the groups that are made from now on; None for torch's default.
    step, sequence, last
        Where training is: the optimizer step, the first sequence of the microbatch in the step's batch, and whether
        this is the step's last microbatch, in a pipeline the last of its stage.
    """

    compute: torch.dtype = torch.float32
    gradient: torch.dtype | None = None
    timeout: timedelta | None = None

    def __init__(self, sizes: dict[str, int], device: torch.device | str = "cpu") -> None:
        ranks = prod(sizes.values())
        world = dist.get_world_size() if dist.is_initialized() else 1
        if ranks != world:
            named = ", ".join(f"{axis} {size}" for axis, size in sizes.items())
            raise ValueError(
                f"the mesh {named} needs {ranks} ranks, but {world} are running: start as many, or export the plan for "
                "another mesh"
            )
        self.sizes = dict(sizes)
        self.rank = dist.get_rank() if dist.is_initialized() else 0
        self.device = torch.device(device)
        self.log: list[tuple[str, Axes, int, int]] | None = None
        self.step, self.sequence, self.last = 0, 0, False
        self._groups: dict[Axes, dist.ProcessGroup] = {}
        self._lines: dict[Line, dist.ProcessGroup | None] = {}
        self._complete = False
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
            if self._complete:
                raise RuntimeError(
                    f"ranks want to communicate over {' and '.join(key)}, for which no group was made at the start: "
                    f"name these axes among the groups of the pipeline"
                )
            members = {axis: list(range(self.sizes[axis])) for axis in key}
            self._groups[key], _ = dist.new_subgroups_by_enumeration(self._apart(members), timeout=self.timeout)
        return self._groups[key]

    def line(self, axis: str, coordinates: tuple[int, ...]) -> dist.ProcessGroup:
        """Return the group of the ranks at some coordinates along one axis; `make_groups` must have made it."""
        group = self._lines[axis, coordinates]
        assert group is not None, f"rank {self.rank} is not at one of {coordinates} along {axis}"
        return group

    def make_groups(self, sets: Iterable[Axes], lines: Iterable[Line]) -> None:
        """Make all groups that ranks will ask for, in one order; another one is an error from now on.

        Ranks that run different programs ask for groups in different order, and would wait for each other for ever.
        """
        for axes in sets:
            self.group(axes)
        for axis, coordinates in lines:
            group, _ = dist.new_subgroups_by_enumeration(self._apart({axis: sorted(coordinates)}), timeout=self.timeout)
            self._lines[axis, coordinates] = group
            if group is not None and self.device.type != "cpu":
                # Connects now: a first message would make its sender wait until it is received.
                dist.all_reduce(torch.zeros(1, device=self.device), group=group)
        self._complete = True

    def _apart(self, members: dict[str, list[int]]) -> list[list[int]]:
        """Return the ranks with given coordinates along some axes, a list for each place along the others."""
        others = [axis for axis in self.sizes if axis not in members]
        groups = []
        for fixed in product(*(range(self.sizes[axis]) for axis in others)):
            at = members | {axis: [place] for axis, place in zip(others, fixed, strict=True)}
            groups.append([self._rank_at(places) for places in product(*(at[axis] for axis in self.sizes))])
        return groups

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
        for group in (*self._groups.values(), *self._lines.values()):
            if group is not None:
                dist.destroy_process_group(group)
        self._groups.clear()
        self._lines.clear()
        self._complete = False

    def _rank_at(self, coordinates: tuple[int, ...]) -> int:
        rank = 0
        for size, coordinate in zip(self.sizes.values(), coordinates, strict=True):
            rank = rank * size + coordinate
        return rank
