"""Redistribution as MindSpore plans it, to compare with: slices first, then gathers, no all-to-all unless asked for.

MindSpore writes both layouts on one finer device matrix and one finer shape, on which every dim is cut by one axis at
most, and then works on two maps from dims to axes, of what is held and of what is wanted:

1. a dim that is whole and whose wanted axis no dim holds is sliced;
2. a dim that is whole and whose wanted axis another dim holds gets it: that dim is gathered, this one sliced (one
   all-to-all if these are enabled);
3. a dim whose axis nobody wants is gathered;
4. where nothing of this applies, since axes are wanted in a circle, the first dim of it is gathered.

Where the shapes have no finer one in common, every dim is gathered, the whole tensor reshaped, and then sliced. Where
the matrices have none, it fails. Values are not partial, and every size divides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from ..collectives import COLLECTIVES
from ..core.collective import Step
from ..core.crossing import Crossing, Holding
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.reshape import cells
from ..errors import LayoutError
from .crossing import joined, step_legs, view
from .meet import on_cells, on_one_mesh


def plan_mindspore(source: Holding, target: Holding, *, all_to_all: bool = False) -> Crossing:
    """Return the way that MindSpore takes.

    Parameters
    ----------
    source, target
        Without partial axes, and even; as `surfaces.DeviceLayout.of` holds them.
    all_to_all
        Whether an axis goes from dim to dim in one step; MindSpore's `enable_alltoall`.

    Raises
    ------
    LayoutError
        `mindspore.no-divisor-chain`, `mesh.matrix-ranks`, `reshape.elements`, `reshape.empty`.
    """
    unified = unify(source, target)
    if unified is None:
        return _by_whole(source, target)
    before, after = unified
    moves = step_legs(_Inference(before, after, all_to_all).steps(), before)
    if not moves:
        return joined(source, target, view(source, target))
    return joined(source, target, (*view(source, before), *moves, *view(after, target)))


def unify(source: Holding, target: Holding) -> tuple[Holding, Holding] | None:
    """Return both on one mesh and shape with one axis a dim at most, or None if no shape is finer than both.

    Raises
    ------
    LayoutError
        `mindspore.no-divisor-chain` if no device matrix is finer than both.
    """
    before, after = _one_matrix(source, target)
    while True:
        before, after = _expanded(before), _expanded(after)
        if before.shape == after.shape:
            return before, after
        if not all(cell.common for cell in cells(before.shape, after.shape)):
            return None
        found = on_cells(before, after)
        if found is None or not all(one.layout.even(one.shape, one.mesh) for one in found):
            return None
        before, after = found


def mindspore_operators(crossing: Crossing) -> tuple[str, ...]:
    """Return MindSpore's operators for the legs: a gather on another dim than the first is split and joined again."""
    names: list[str] = []
    for leg in crossing.legs:
        match leg.kind:
            case "view":
                names += ["Reshape"] if leg.source.local_shape(0) != leg.target.local_shape(0) else []
            case "all_gather":
                assert leg.step is not None
                names += ["AllGather", "Split", "Concat"] if leg.step.dim else ["AllGather"]
            case "all_to_all":
                names.append("AlltoAll")
            case kind:
                assert kind == "slice"
                names.append("StridedSlice")
    return tuple(names)


@dataclass(slots=True)
class _Inference:
    """The inference of steps on unified holdings; `held` and `wanted` give the axis of each dim that is not done."""

    source: Holding
    target: Holding
    all_to_all: bool
    held: dict[int, str | None] = field(init=False)
    wanted: dict[int, str | None] = field(init=False)
    layout: Layout = field(init=False)
    made: list[Step] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.layout = self.source.layout
        self.held, self.wanted = (_axis_of_dim(holding) for holding in (self.source, self.target))

    def steps(self) -> list[Step]:
        """Return all steps."""
        self._drop()
        while self.held:
            before = len(self.made)
            self._slice_and_permute()
            self._gather_unwanted()
            if len(self.made) == before and self.held:
                self._gather(min(self.held))
            self._drop()
        return self.made

    def _slice_and_permute(self) -> None:
        while True:
            before = len(self.made)
            self._slice()
            while self._permute():
                pass
            if len(self.made) == before:
                return

    def _slice(self) -> None:
        """Slice the whole dims whose wanted axis nobody holds."""
        for dim in list(self.held):
            axis = self.wanted[dim]
            if self.held[dim] is None and axis is not None and axis not in self.held.values():
                self._step("slice", axis, dim)
                self.held[dim] = axis
        self._drop()

    def _permute(self) -> bool:
        """Give the whole dims the axes that other dims hold; what these get in turn is seen in the same pass."""
        count = len(self.made)
        for dim in list(self.held):
            axis = self.wanted[dim]
            if self.held[dim] is not None or axis is None:
                continue
            holders = [other for other, has in self.held.items() if has == axis]
            if not holders:
                continue
            if self.all_to_all:
                self._step("all_to_all", axis, holders[0], to_dim=dim)
                self.held[holders[0]] = None
            else:
                self._gather(holders[0])
                self._step("slice", axis, dim)
            self.held[dim] = axis
        self._drop()
        return len(self.made) > count

    def _gather_unwanted(self) -> None:
        for dim, axis in list(self.held.items()):
            if axis is not None and axis not in self.wanted.values():
                self._gather(dim)

    def _gather(self, dim: int) -> None:
        axis = self.held[dim]
        assert axis is not None
        self._step("all_gather", axis, dim)
        self.held[dim] = None

    def _drop(self) -> None:
        """Forget the dims that are as they are wanted."""
        self.held = {dim: axis for dim, axis in self.held.items() if axis != self.wanted[dim]}

    def _step(self, kind: str, axis: str, dim: int, to_dim: int = -1) -> None:
        mesh, shape = self.source.mesh, self.source.shape
        step = COLLECTIVES[kind].step(self.layout, shape, mesh, axes=(axis,), dim=dim, to_dim=to_dim)
        self.made.append(step)
        self.layout = step.target


def _axis_of_dim(holding: Holding) -> dict[int, str | None]:
    return {dim: axes[0] if axes else None for dim, axes in enumerate(holding.layout.dims)}


def _one_matrix(source: Holding, target: Holding) -> tuple[Holding, Holding]:
    both = on_one_mesh(_squeezed(source), _squeezed(target))
    if both is None:
        raise LayoutError(
            "mindspore.no-divisor-chain",
            f"MindSpore's planner finds no device matrix that is finer than {_matrix(source)} and {_matrix(target)}: "
            "their cumulative products from the right do not divide each other.",
            "Use the default planner, or matrices whose sizes divide each other.",
        )
    return both


def _squeezed(holding: Holding) -> Holding:
    """Return a holding without mesh axes and tensor dims of size 1."""
    mesh = DeviceMesh(tuple((name, size) for name, size in holding.mesh.axes if size > 1))
    layout = holding.layout.normal(holding.mesh)
    kept = [dim for dim, size in enumerate(holding.shape) if size > 1]
    return Holding(
        mesh=mesh,
        shape=tuple(holding.shape[dim] for dim in kept),
        layout=Layout(tuple(layout.dims[dim] for dim in kept)),
    )


def _expanded(holding: Holding) -> Holding:
    """Return a holding in which a dim with several axes is cut into dims with one each, the last with what is left."""
    shape: list[int] = []
    dims: list[tuple[str, ...]] = []
    for size, axes in zip(holding.shape, holding.layout.dims, strict=True):
        for axis in axes[:-1]:
            shape.append(holding.mesh.size(axis))
            dims.append((axis,))
        shape.append(size // prod(holding.mesh.size(axis) for axis in axes[:-1]))
        dims.append(axes[-1:])
    return Holding(mesh=holding.mesh, shape=tuple(shape), layout=Layout(tuple(dims)))


def _by_whole(source: Holding, target: Holding) -> Crossing:
    """Gather every dim, reshape the whole tensor, and slice."""
    before, after = _one_matrix(source, target)
    made: list[Step] = []
    layout = before.layout
    for dim, axes in enumerate(layout.dims):
        if axes:
            made.append(COLLECTIVES["all_gather"].step(layout, before.shape, before.mesh, axes=axes, dim=dim))
            layout = made[-1].target
    whole = Holding(mesh=before.mesh, shape=before.shape, layout=layout)
    reshaped = Holding(mesh=after.mesh, shape=after.shape, layout=Layout.replicated(len(after.shape)))
    cut: list[Step] = []
    layout = reshaped.layout
    for dim, axes in enumerate(after.layout.dims):
        if axes:
            cut.append(COLLECTIVES["slice"].step(layout, after.shape, after.mesh, axes=axes, dim=dim))
            layout = cut[-1].target
    legs = (
        *view(source, before), *step_legs(made, before), *view(whole, reshaped), *step_legs(cut, reshaped),
        *view(after, target),
    )  # fmt: skip
    return joined(source, target, legs)


def _matrix(holding: Holding) -> str:
    return str([size for _, size in holding.mesh.axes])
