"""Storage, gradient and optimizer layouts of parameters."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.assignment import ParameterLayout
from ..core.graph import Parameter
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..core.plan import ParameterDecision
from ..errors import Diagnostic, LayoutError


def parameter_layout(
    parameter: Parameter,
    read: Layout,
    decisions: Iterable[ParameterDecision],
    mesh: DeviceMesh,
    diagnostics: list[Diagnostic],
) -> ParameterLayout:
    """Return where a parameter lies: as its first reader reads it, or as the decisions say.

    A decision's `axes` are added on the first dim that they divide. Where none does, the parameter stays as it is and a
    diagnostic says so.
    """
    shape = tuple(int(size) for size in parameter.meta.shape if isinstance(size, int))
    storage, regather = read.adjoint, False
    for decision in decisions:
        regather = decision.regather
        if decision.layout is not None:
            storage = _stored(parameter, decision.layout)
        elif decision.axes:
            storage = _further(parameter, storage, decision.axes, shape, mesh, diagnostics)
    storage.require_even(shape, mesh, subject=parameter.name)
    moved = storage.normal(mesh) != read.normal(mesh)
    return ParameterLayout(
        parameter=parameter, storage=storage, gradient=storage.adjoint, optimizer=storage.adjoint,
        regather=regather and moved,
    )  # fmt: skip


def _stored(parameter: Parameter, layout: Layout) -> Layout:
    """Return the layout, which must hold the values themselves: updating the parts of a sum does not update the sum."""
    if layout.partial:
        raise LayoutError(
            "plan.parameter-partial",
            f"{parameter.name} can't be stored as {layout}: it would be a sum over {'·'.join(layout.partial)}.",
            f"Store it as {layout.adjoint}, or shard a dim over {'·'.join(layout.partial)}.",
            subject=parameter.name,
        )
    return layout


def _further(
    parameter: Parameter, storage: Layout, axes: Axes, shape: tuple[int, ...], mesh: DeviceMesh,
    diagnostics: list[Diagnostic],
) -> Layout:  # fmt: skip
    free = tuple(axis for axis in axes if axis not in storage.used)
    for dim, size in enumerate(shape):
        if free and size % (mesh.size_of(storage.dims[dim]) * mesh.size_of(free)) == 0:
            return storage.with_dim(dim, storage.dims[dim] + free)
    if free:
        diagnostics.append(
            Diagnostic(
                code="plan.parameter-not-sharded",
                severity="warning",
                subject=parameter.name,
                message=f"{parameter.name} of shape {shape} stays {storage}: no dim is a multiple of "
                f"{'·'.join(free)} ({mesh.size_of(free)}) on top of it.",
                hint="It is stored whole over these axes; nothing else changes.",
            )
        )
    return storage
