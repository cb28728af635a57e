"""Storage, gradient and optimizer layouts of parameters."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.assignment import ParameterLayout
from ..core.graph import Parameter
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..core.plan import PLACES, STATES, ParameterDecision
from ..errors import Diagnostic, LayoutError


def parameter_layout(
    parameter: Parameter,
    read: Layout,
    first: Layout,
    decisions: Iterable[ParameterDecision],
    mesh: DeviceMesh,
    diagnostics: list[Diagnostic],
) -> ParameterLayout:
    """Return where a parameter, its gradient and its optimizer's state lie.

    The storage is as `first` says, the gradient as the storage, the optimizer's state as the gradient, or as the
    decisions say. A decision's `axes` are added on the first dim that they divide, else on the dim of which a
    rank holds most: it is cut into unequal parts, which `uneven` tells. A parameter without dims stays as it is, and a
    diagnostic says so.

    Parameters
    ----------
    read
        As its first reader reads it.
    first
        The same of the first of its copies, where several stages of a pipeline hold one: copies lie alike, since their
        gradients are added.
    """
    shape = tuple(int(size) for size in parameter.meta.shape if isinstance(size, int))
    given = tuple(decisions)
    layout, layouts = first.adjoint, {}
    for state in STATES:
        before = layout
        for decision in given:
            if decision.of == state and decision.resets:
                layout = before
            elif decision.of == state and decision.layout is not None:
                layout = _whole(parameter, state, decision.layout)
            elif decision.of == state and decision.axes:
                layout = _further(parameter, state, layout, decision.axes, shape, mesh, diagnostics)
        layout.local_shape(shape, mesh, subject=parameter.name)
        # Axes of size 1 alone make no other place.
        if state != STATES[0] and layout.normal(mesh) == before.normal(mesh):
            layout = before
        layouts[state] = layout
    storage_place, optimizer_place = (
        next((d.place for d in reversed(given) if d.of == state and d.place), PLACES[0])
        for state in ("storage", "optimizer")
    )
    # A place alone says nothing on how it is read.
    handled = [d for d in reversed(given) if d.lays or d.resets]
    regather = next((d.regather for d in handled if d.of == "storage"), False)
    moved = layouts["storage"].normal(mesh) != read.normal(mesh)
    return ParameterLayout(
        parameter=parameter, **layouts, regather=storage_place == "host" or (regather and moved),
        place=storage_place, optimizer_place=optimizer_place,
        deferred=next((d.deferred for d in handled if d.of == "gradient"), False),
    )  # fmt: skip


def _whole(parameter: Parameter, state: str, layout: Layout) -> Layout:
    """Return the layout, which must hold the values themselves: updating the parts of a sum does not update the sum."""
    if layout.partial:
        raise LayoutError(
            "plan.parameter-partial",
            f"The {state} of {parameter.name} can't lie as {layout}: "
            f"it would be a sum over {'·'.join(layout.partial)}.",
            f"Use {layout.adjoint}, or shard a dim over {'·'.join(layout.partial)}.",
            subject=parameter.name,
        )
    return layout


def _further(
    parameter: Parameter, state: str, before: Layout, axes: Axes, shape: tuple[int, ...], mesh: DeviceMesh,
    diagnostics: list[Diagnostic],
) -> Layout:  # fmt: skip
    free = tuple(axis for axis in axes if axis not in before.used)
    if not free:
        return before
    if not shape:
        diagnostics.append(
            Diagnostic(
                code="plan.parameter-not-sharded",
                severity="warning",
                subject=parameter.name,
                message=f"The {state} of {parameter.name} is one number and stays whole over {'·'.join(free)}.",
                hint="Nothing else changes.",
            )
        )
        return before
    dividing = (d for d, size in enumerate(shape) if size % mesh.size_of((*before.dims[d], *free)) == 0)
    local = before.local_shape(shape, mesh)
    dim = next(dividing, max(range(len(shape)), key=lambda d: local[d]))
    return before.with_dim(dim, before.dims[dim] + free)
