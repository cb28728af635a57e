"""How a tensor lies on a mesh.

A `Layout` gives, per tensor dim, the ordered mesh axes that shard it (major to minor), and the axes over which the
stored values are partial results that still have to be reduced. An axis in neither is replicated.

Printed `[dp, tp·cp, -] +ep`: dim 0 over dp, dim 1 over tp then cp, dim 2 whole, partial sums over ep. Partial results
of another reduction are printed `max(ep)`; only sums carry gradients.

Sizes need not divide: what a rank holds then follows nested ceil-chunks (`core.chunk`), and may be empty.

Invariants: an axis is used at most once; `Layout.parse(str(layout)) == layout`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..errors import LayoutError
from . import layout_text
from .chunk import chunk, largest
from .mesh import Axes, DeviceMesh
from .scan import point

REDUCE_OPS = ("sum", "mean", "max", "min")


@dataclass(frozen=True, slots=True)
class Layout:
    """Sharded, partial and replicated axes of one tensor; see the module docstring.

    Raises
    ------
    LayoutError
        `layout.axis-reused` when an axis appears twice, `layout.reduce-op` for an unknown reduction.
    """

    dims: tuple[Axes, ...]
    partial: Axes = ()
    reduce: str = "sum"

    def __post_init__(self) -> None:
        object.__setattr__(self, "partial", tuple(sorted(self.partial)))
        if not self.partial:
            object.__setattr__(self, "reduce", "sum")
        if self.reduce not in REDUCE_OPS:
            raise LayoutError(
                "layout.reduce-op",
                f"{self.reduce!r} is not a reduction.",
                f"Use one of {', '.join(REDUCE_OPS)}.",
                subject=self.reduce,
            )
        seen: dict[str, str] = {}
        for place, axes in [*((f"dim {i}", dim) for i, dim in enumerate(self.dims)), ("partial", self.partial)]:
            for axis in axes:
                if axis in seen:
                    raise LayoutError(
                        "layout.axis-reused",
                        f"Axis {axis!r} is used for {seen[axis]} and for {place}; "
                        "an axis may be used once in a tensor.",
                        f"Take {axis!r} from {place} or use another axis there.",
                        subject=axis,
                    )
                seen[axis] = place

    @staticmethod
    def replicated(rank: int) -> Layout:
        """Return the layout that keeps a whole copy of a tensor with `rank` dims on each device."""
        return Layout(((),) * rank)

    @staticmethod
    def parse(text: str) -> Layout:
        """Read a layout as printed; see the module docstring. `+` may stand for `·`."""
        dims, partial, reduce = layout_text.read(text)
        try:
            return Layout(dims, partial, reduce)
        except LayoutError as error:
            raise point(error, text, occurrence=1 if error.code == "layout.axis-reused" else 0) from None

    def __str__(self) -> str:
        dims = ", ".join("·".join(axes) or "-" for axes in self.dims)
        if not self.partial:
            return f"[{dims}]"
        axes = "·".join(self.partial)
        return f"[{dims}] +{axes}" if self.reduce == "sum" else f"[{dims}] {self.reduce}({axes})"

    @property
    def sharded(self) -> frozenset[str]:
        """Axes that shard some dim."""
        return frozenset(axis for dim in self.dims for axis in dim)

    @property
    def used(self) -> frozenset[str]:
        """Axes that shard a dim or are partial."""
        return self.sharded | set(self.partial)

    @property
    def adjoint(self) -> Layout:
        """The layout of this value's gradient: Partial becomes Replicate (`docs/concepts/gradients.md`)."""
        return Layout(self.dims) if self.partial else self

    def normal(self, mesh: DeviceMesh) -> Layout:
        """Return the layout without axes of size 1, which move and reduce nothing."""
        if all(mesh.size(axis) > 1 for axis in self.used):
            return self
        dims = tuple(tuple(axis for axis in dim if mesh.size(axis) > 1) for dim in self.dims)
        return Layout(dims, tuple(axis for axis in self.partial if mesh.size(axis) > 1), self.reduce)

    def with_dim(self, dim: int, axes: Axes) -> Layout:
        """Return the layout with other axes on one dim."""
        return Layout((*self.dims[:dim], axes, *self.dims[dim + 1 :]), self.partial, self.reduce)

    def with_partial(self, partial: Axes) -> Layout:
        """Return the layout with other partial axes."""
        return Layout(self.dims, partial, self.reduce)

    def rename(self, replaced: str, parts: Axes) -> Layout:
        """Return the layout after axis `replaced` was split into `parts`."""
        dims = tuple(_rename(dim, replaced, parts) for dim in self.dims)
        return Layout(dims, _rename(self.partial, replaced, parts), self.reduce)

    def local_shape(self, shape: tuple[int, ...], mesh: DeviceMesh, *, subject: str = "") -> tuple[int, ...]:
        """Return the largest shape that a rank holds of a tensor of global `shape`.

        It is that of the rank at coordinate 0 of every axis; where the layout is even, every rank's.

        Raises
        ------
        LayoutError
            `layout.rank-mismatch`, `mesh.axis-unknown`.
        """
        self._hold_rank(shape, subject)
        return tuple(largest(size, axes, mesh) for size, axes in zip(shape, self.dims, strict=True))

    def local_elements(self, shape: tuple[int, ...], mesh: DeviceMesh) -> int:
        """Return the largest number of elements that a rank holds."""
        return prod(self.local_shape(shape, mesh))

    def shape_of(self, shape: tuple[int, ...], mesh: DeviceMesh, rank: int) -> tuple[int, ...]:
        """Return the shape that `rank` holds of a tensor of global `shape`; its sizes may be 0.

        Raises
        ------
        LayoutError
            `layout.rank-mismatch`, `mesh.axis-unknown`.
        """
        self._hold_rank(shape)
        chunks = (chunk(size, axes, mesh, rank) for size, axes in zip(shape, self.dims, strict=True))
        return tuple(stop - start for start, stop in chunks)

    def even(self, shape: tuple[int, ...], mesh: DeviceMesh) -> bool:
        """Return whether all ranks hold parts of one shape: whether the axes on each dim divide its size."""
        self._hold_rank(shape)
        return all(size % mesh.size_of(axes) == 0 for size, axes in zip(shape, self.dims, strict=True))

    def _hold_rank(self, shape: tuple[int, ...], subject: str = "") -> None:
        if len(shape) != len(self.dims):
            raise LayoutError(
                "layout.rank-mismatch",
                f"Layout {self} has {len(self.dims)} dims, the tensor has {len(shape)} (shape {shape}).",
                "Give one entry a dim.",
                subject=subject,
            )


def _rename(axes: Axes, replaced: str, parts: Axes) -> Axes:
    return tuple(name for axis in axes for name in (parts if axis == replaced else (axis,)))
