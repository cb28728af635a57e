"""One collective step, and a sequence of them that leads from a layout to a layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod

from .layout import Layout
from .mesh import Axes
from .tensor import DTYPE_BYTES

Part = tuple[int, Axes]
"""A tensor dim, and mesh axes on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One collective of a redistribution.

    Parameters
    ----------
    kind
        Key of the table `COLLECTIVES`.
    axes
        Mesh axes of its group, the first one major.
    dim
        Tensor dim that it gathers, scatters, slices or (for all-to-all) takes from; -1 if it has none or several.
    to_dim
        Tensor dim that an all-to-all shards; -1 otherwise.
    source, target
        Layouts before and after.
    shape
        Global shape of the tensor.
    source_shape, target_shape
        Largest local shapes before and after, those of the rank at coordinate 0 of every axis; the exact one of a rank
        is `source.shape_of(shape, mesh, rank)`.
    group_size
        Number of ranks of the group.
    added_in
        Element type in which summands are passed and added, where it is wider than the tensor's: the sum is rounded
        once, and not on each of its ways from rank to rank. Empty where they are passed as they are.
    """

    kind: str
    axes: Axes
    dim: int = -1
    to_dim: int = -1
    source: Layout
    target: Layout
    shape: tuple[int, ...]
    source_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    group_size: int
    added_in: str = ""

    @property
    def source_elements(self) -> int:
        """Largest number of elements that a rank holds before."""
        return prod(self.source_shape)

    @property
    def target_elements(self) -> int:
        """Largest number of elements that a rank holds after."""
        return prod(self.target_shape)

    @property
    def taken(self) -> tuple[Part, ...]:
        """The dims that lose axes on their minor side and gain none, with these axes."""
        return further(self.target, self.source)

    @property
    def given(self) -> tuple[Part, ...]:
        """The dims that gain axes on their minor side and lose none, with these axes."""
        return further(self.source, self.target)

    def itemsize(self, own: int) -> int:
        """Return the bytes of an element as it is passed, of a tensor whose elements have `own` bytes."""
        return DTYPE_BYTES[self.added_in] if self.added_in else own

    @property
    def widened_bytes(self) -> int:
        """Bytes of the wider copies that are passed and added, beside input and output."""
        if not self.added_in:
            return 0
        # An all-reduce adds in place.
        passed = self.source_elements + (self.target_elements if self.kind == "reduce_scatter" else 0)
        return passed * DTYPE_BYTES[self.added_in]

    def __str__(self) -> str:
        where = "" if self.dim < 0 else f" dim {self.dim}" + (f"→{self.to_dim}" if self.to_dim >= 0 else "")
        if self.dim < 0 and self.kind not in ("exchange", "permute", "sum_exchange"):
            sides = [", ".join(str(dim) for dim, _ in parts) for parts in (self.taken, self.given) if parts]
            where = f" dims {'→'.join(sides)}" if sides else ""
        how = f" in {self.added_in}" if self.added_in else ""
        return f"{self.kind}{where} over {'·'.join(self.axes)}{how}"


def further(layout: Layout, finer: Layout) -> tuple[Part, ...]:
    """Return the dims on which `finer` has the axes of `layout` and more, with the additional ones."""
    pairs = enumerate(zip(layout.dims, finer.dims, strict=True))
    return tuple((dim, b[len(a) :]) for dim, (a, b) in pairs if len(b) > len(a) and b[: len(a)] == a)


@dataclass(frozen=True, slots=True, kw_only=True)
class Redistribution:
    """Ordered steps from `source` to `target` for a tensor of global `shape`; no steps if nothing has to move.

    Parameters
    ----------
    gap
        By which part of its cost it may be above the best way; 0 where the search was exhaustive.
    """

    source: Layout
    target: Layout
    shape: tuple[int, ...]
    steps: tuple[Step, ...]
    gap: float = 0.0

    @property
    def peak_elements(self) -> int:
        """Largest number of elements live on a rank at any step: its input and output together.

        A slice before another step is a view: it takes no room and keeps its input until that step is done.
        """
        return max((elements for _, elements in self._live()), default=0)

    def peak_bytes(self, itemsize: int) -> int:
        """Return the bytes of that peak, with the wider copies in which summands are added.

        Parameters
        ----------
        itemsize
            Bytes of an element of the tensor.
        """
        return max((elements * itemsize + step.widened_bytes for step, elements in self._live()), default=0)

    def _live(self) -> Iterator[tuple[Step, int]]:
        """Yield each step that takes room, with the elements of its input and output together."""
        held = 0
        for position, step in enumerate(self.steps, start=1):
            held = held or step.source_elements
            if step.kind != "slice" or position == len(self.steps):
                yield step, held + step.target_elements
                held = 0

    def __str__(self) -> str:
        return f"{self.source} → {self.target}: {', then '.join(map(str, self.steps)) or 'nothing to move'}"


PlanEdge = Callable[[Layout, Layout, tuple[int, ...], str], Redistribution]
"""Source layout, target layout, global shape, element type → the cheapest redistribution."""
