"""The logical grid of devices.

A `DeviceMesh` has ordered, named axes. Ranks are row-major: the last axis connects neighbouring ranks.

Invariants: axis names are distinct identifiers, sizes are ≥ 1; `parse(str(mesh)) == mesh`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import prod

from ..errors import LayoutError, Place
from .scan import point

Axes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeviceMesh:
    """Ordered mesh axes with their sizes, e.g. `DeviceMesh.of({"dp": 8, "tp": 8})`."""

    axes: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for name, size in self.axes:
            if not re.fullmatch(r"[A-Za-z_]\w*", name):
                raise LayoutError(
                    "mesh.axis-name", f"{name!r} is not a mesh axis name.", "Use letters, digits and _, as in tp0."
                )
            if name in seen:
                raise LayoutError(
                    "mesh.axis-repeated",
                    f"The mesh names axis {name!r} twice.",
                    "Name each axis once.",
                    subject=name,
                )
            if size < 1:
                raise LayoutError(
                    "mesh.axis-size",
                    f"Mesh axis {name!r} has size {size}.",
                    "Give a size of at least 1.",
                    subject=name,
                )
            seen.add(name)

    @staticmethod
    def of(sizes: Mapping[str, int]) -> DeviceMesh:
        """Build a mesh from name → size, in the mapping's order."""
        return DeviceMesh(tuple(sizes.items()))

    @staticmethod
    def parse(text: str) -> DeviceMesh:
        """Read `dp:2,tp:4`; `=` may stand for `:`, and `×` for the comma."""
        axes: list[tuple[str, int]] = []
        at = 0
        for part in re.split(r"[,×]", text):
            match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*[:=]\s*(\d{1,9})\s*", part)
            if match is None:
                shown = part.strip()
                start = at + len(part) - len(part.lstrip()) if shown else at
                raise LayoutError(
                    "mesh.syntax",
                    f"{shown!r} is not a mesh axis.",
                    "Write name:size, e.g. dp:2,tp:4.",
                    place=Place(text, start, start + max(1, len(shown))),
                )
            axes.append((match[1], int(match[2])))
            at += len(part) + 1
        try:
            return DeviceMesh(tuple(axes))
        except LayoutError as error:
            raise point(error, text, occurrence=1 if error.code == "mesh.axis-repeated" else 0) from None

    def __str__(self) -> str:
        return ",".join(f"{name}:{size}" for name, size in self.axes)

    @property
    def names(self) -> Axes:
        """Axis names in mesh order."""
        return tuple(name for name, _ in self.axes)

    @property
    def device_count(self) -> int:
        """Number of ranks."""
        return prod(size for _, size in self.axes)

    def size(self, axis: str) -> int:
        """Return the size of one axis.

        Raises
        ------
        LayoutError
            `mesh.axis-unknown`.
        """
        for name, size in self.axes:
            if name == axis:
                return size
        raise LayoutError(
            "mesh.axis-unknown",
            f"The mesh {self} has no axis {axis!r}.",
            f"Use one of: {', '.join(self.names)}.",
            subject=axis,
        )

    def size_of(self, axes: Iterable[str]) -> int:
        """Return the product of the sizes of several axes."""
        return prod(self.size(axis) for axis in axes)

    def stride(self, axis: str) -> int:
        """Return how many ranks lie between neighbours along `axis`."""
        return _grid(self)[axis][0]

    def coordinates(self, rank: int) -> dict[str, int]:
        """Return axis → coordinate of a rank."""
        return {name: rank // stride % size for name, (stride, size) in _grid(self).items()}

    def index(self, rank: int, axes: Axes) -> int:
        """Return the position of `rank` along several axes, the first one major."""
        grid = _grid(self)
        position = 0
        for axis in axes:
            stride, size = grid[axis] if axis in grid else (0, self.size(axis))
            position = position * size + rank // stride % size
        return position

    def group(self, axes: Axes, rank: int = 0) -> tuple[int, ...]:
        """Return the ranks that differ from `rank` along `axes` only, the first axis major."""
        base = rank - sum(self.coordinates(rank)[axis] * self.stride(axis) for axis in axes)
        offsets = ([i * self.stride(axis) for i in range(self.size(axis))] for axis in axes)
        return tuple(base + sum(steps) for steps in product(*offsets))

    def members_per_node(self, axes: Axes, devices_per_node: int) -> int:
        """Return the least number of ranks that a group over `axes` has on one node that it touches."""
        return _members_per_node(self, axes, devices_per_node)

    def split(self, axis: str, sizes: tuple[int, ...]) -> tuple[DeviceMesh, Axes]:
        """Cut one axis into several, the first one major; names get a running number.

        Returns
        -------
        mesh, parts
            The finer mesh and the names that replace `axis`. `tp:8` with sizes (2, 4) gives `tp0:2,tp1:4`.
        """
        if prod(sizes) != self.size(axis):
            raise LayoutError(
                "mesh.split-size",
                f"Axis {axis!r} of size {self.size(axis)} can't be split into {sizes}.",
                f"Give sizes whose product is {self.size(axis)}.",
            )
        parts = tuple(f"{axis}{i}" for i in range(len(sizes)))
        axes: list[tuple[str, int]] = []
        for name, size in self.axes:
            axes += list(zip(parts, sizes, strict=True)) if name == axis else [(name, size)]
        return DeviceMesh(tuple(axes)), parts


@cache
def _grid(mesh: DeviceMesh) -> Mapping[str, tuple[int, int]]:
    """Return how many ranks lie between neighbours along each axis, and how many neighbours there are."""
    sizes = [size for _, size in mesh.axes]
    return {name: (prod(sizes[i + 1 :]), size) for i, (name, size) in enumerate(mesh.axes)}


@cache
def _members_per_node(mesh: DeviceMesh, axes: Axes, devices_per_node: int) -> int:
    counts: dict[int, int] = {}
    for rank in mesh.group(axes):
        counts[rank // devices_per_node] = counts.get(rank // devices_per_node, 0) + 1
    return min(counts.values())
