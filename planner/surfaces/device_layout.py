"""MindSpore's layout: (device matrix, tensor map, tensor shape).

The matrix is row-major over the ranks. The map gives, per tensor dim, the matrix dim that cuts it, *counted from the
right* (0 is the last), -1 for none; a tuple has the major one first. Written `[2, 4] | [1, 0] | (512, 1024)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..core.refine import Matrix, Refinement
from ..errors import LayoutError, Place
from .literal import Term, parse

SYNTAX = "mindspore.map-syntax"
HINT = "Write e.g. [2, 4] | [1, 0]; the map counts matrix dims from the right, -1 keeps a dim whole."
Map = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceLayout:
    """A layout of one tensor in MindSpore's terms.

    Parameters
    ----------
    matrix
        Sizes of the device matrix.
    tensor_map
        Per tensor dim the matrix dims on it, counted from the right, major first; empty if it is whole.
    shape
        Global shape.

    Raises
    ------
    LayoutError
        `mindspore.matrix`, `mindspore.map-length`, `mindspore.map-range`, `mindspore.map-repeated`,
        `mindspore.map-divides`.
    """

    matrix: Matrix
    tensor_map: Map
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.matrix or min(self.matrix) < 1:
            raise LayoutError(
                "mindspore.matrix", f"The device matrix {list(self.matrix)} has no sizes of at least 1.",
                "Write e.g. [2, 4].",
            )  # fmt: skip
        if len(self.tensor_map) != len(self.shape):
            raise LayoutError(
                "mindspore.map-length",
                f"The tensor map {self._map} has {len(self.tensor_map)} entries, the tensor {len(self.shape)} dims.",
                "Give one entry a dim.",
            )
        used = [place for places in self.tensor_map for place in places]
        for place in used:
            if not 0 <= place < len(self.matrix):
                raise LayoutError(
                    "mindspore.map-range",
                    f"The tensor map {self._map} names dim {place} of the device matrix {list(self.matrix)}.",
                    f"Count from the right, from 0 to {len(self.matrix) - 1}; -1 keeps a dim whole.",
                )
            if used.count(place) > 1:
                raise LayoutError(
                    "mindspore.map-repeated",
                    f"The tensor map {self._map} names dim {place} of the device matrix {list(self.matrix)} "
                    f"{used.count(place)} times.",
                    "Name each at most once.",
                )
        for dim, (size, count) in enumerate(zip(self.shape, self.counts, strict=True)):
            if size % count:
                raise LayoutError(
                    "mindspore.map-divides",
                    f"Dim {dim} has size {size}, which can't be cut into {count} equal parts ({size} % {count} = "
                    f"{size % count}).",
                    f"Use counts that divide {size}.",
                )

    @staticmethod
    def of(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> DeviceLayout:
        """Return a layout on the matrix of the mesh's sizes.

        Raises
        ------
        LayoutError
            `surface.partial-inexpressible`, besides those of the class.
        """
        if layout.partial:
            raise LayoutError(
                "surface.partial-inexpressible",
                f"{layout} is partial over {'·'.join(layout.partial)}; a tensor map says only how dims are sharded.",
                "Reduce it first.",
            )
        mesh.size_of(layout.sharded)
        last = len(mesh.axes) - 1
        places = {name: last - position for position, name in enumerate(mesh.names)}
        return DeviceLayout(
            matrix=tuple(size for _, size in mesh.axes),
            tensor_map=tuple(tuple(places[axis] for axis in axes) for axes in layout.dims),
            shape=shape,
        )

    @property
    def counts(self) -> tuple[int, ...]:
        """Number of parts of every dim."""
        return tuple(prod(self.matrix[-1 - place] for place in places) for places in self.tensor_map)

    @property
    def normal(self) -> DeviceLayout:
        """MindSpore's normal form: neither matrix dims nor tensor dims of size 1; a scalar or all ones is `(1,)`."""
        kept = [place for place in range(len(self.matrix)) if self.matrix[-1 - place] > 1]
        dims = [dim for dim, size in enumerate(self.shape) if size > 1]
        return DeviceLayout(
            matrix=tuple(size for size in self.matrix if size > 1) or (1,),
            tensor_map=tuple(
                tuple(kept.index(place) for place in self.tensor_map[dim] if place in kept) for dim in dims
            )
            or ((),),
            shape=tuple(self.shape[dim] for dim in dims) or (1,),
        )  # fmt: skip

    def named(self, names: Axes = ()) -> tuple[DeviceMesh, Layout]:
        """Return a mesh of the matrix's sizes, with axes of these names or `d0, d1, …`, and the layout on it."""
        mesh = DeviceMesh(tuple(zip(names or [f"d{i}" for i in range(len(self.matrix))], self.matrix, strict=True)))
        return mesh, Layout(tuple(tuple(mesh.names[-1 - place] for place in places) for places in self.tensor_map))

    def on(self, refinement: Refinement) -> Layout:
        """Return the layout on a mesh that refines the matrix."""
        last = len(self.matrix) - 1
        return Layout(
            tuple(
                tuple(axis for place in places for axis in refinement.axes(self.matrix, last - place))
                for places in self.tensor_map
            )
        )

    @property
    def _map(self) -> str:
        shown = [
            "-1" if not places else str(places[0]) if len(places) == 1 else str(places) for places in self.tensor_map
        ]
        return f"[{', '.join(shown)}]"

    def __str__(self) -> str:
        shape = f"({', '.join(map(str, self.shape))})"
        return f"{list(self.matrix)} | {self._map} | {shape}"


def read(text: str, shape: tuple[int, ...]) -> DeviceLayout:
    """Read `[2, 4] | [1, 0]`, with the shape behind a further bar or not.

    Raises
    ------
    LayoutError
        `mindspore.map-syntax`, with its place, besides those of the class.
    """
    parts = text.split("|")
    at, rows = 0, []
    for part in parts[:3]:
        # Blanks keep the places of the other parts.
        term = parse(" " * at + part, "a device matrix and a tensor map", SYNTAX, HINT)
        rows.append([_numbers(item, text) for item in (term.items if term.kind == "sequence" else (term,))])
        at += len(part) + 1
    if len(parts) not in {2, 3}:
        raise LayoutError(SYNTAX, f"{text!r} does not have two or three parts.", HINT)
    matrix, places, given = rows[0], rows[1], rows[2] if len(rows) == 3 else [(size,) for size in shape]
    found = DeviceLayout(
        matrix=tuple(number for numbers in matrix for number in numbers),
        tensor_map=tuple(() if numbers == (-1,) else numbers for numbers in places),
        shape=tuple(number for numbers in given for number in numbers),
    )
    if found.shape != shape:
        raise LayoutError(
            "mindspore.shape", f"The layout is of a tensor of shape {found.shape}, the tensor has {shape}.",
            "Leave the shape out of the layout.",
        )  # fmt: skip
    return found


def _numbers(term: Term, text: str) -> tuple[int, ...]:
    items = term.items if term.kind == "sequence" else (term,)
    numbers = [item.number for item in items]
    if None in numbers:
        place = Place(text, term.start, term.stop)
        raise LayoutError(SYNTAX, f"{str(term)[:60]!r} is not a number.", HINT, place=place)
    return tuple(number for number in numbers if number is not None)
