"""What may be done to a layout: a step of every family that applies."""

from collections.abc import Iterator

from planner.collectives import COLLECTIVES
from planner.core.collective import Step
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh


def applicable(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Iterator[Step]:
    """Yield steps of every family but the exchange."""
    kinds = COLLECTIVES
    free = tuple(axis for axis in mesh.names if axis not in layout.used)
    for dim, axes in enumerate(layout.dims):
        for length in range(1, len(axes) + 1):
            minor = axes[-length:]
            yield kinds["all_gather"].step(layout, shape, mesh, axes=minor, dim=dim)
            if layout.reduce == "sum":
                yield kinds["pad"].step(layout, shape, mesh, axes=minor, dim=dim)
            for to_dim in range(len(shape)):
                if to_dim != dim:
                    yield kinds["all_to_all"].step(layout, shape, mesh, axes=minor, dim=dim, to_dim=to_dim)
        if free:
            yield kinds["slice"].step(layout, shape, mesh, axes=free[::-1], dim=dim)
        if layout.partial:
            yield kinds["reduce_scatter"].step(layout, shape, mesh, axes=layout.partial[::-1], dim=dim)
    if layout.partial:
        yield kinds["all_reduce"].step(layout, shape, mesh, axes=layout.partial)
    if free and layout.reduce == "sum":
        yield kinds["zero"].step(layout, shape, mesh, axes=free)
    yield from _several(layout, shape, mesh)


def _several(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Iterator[Step]:
    """Yield steps that take or give axes on several dims."""
    kinds = COLLECTIVES
    several = [dim for dim, axes in enumerate(layout.dims) if axes]
    if len(several) > 1:
        target = Layout(tuple(axes[:-1] for axes in layout.dims), layout.partial, layout.reduce)
        yield kinds["all_gather"].step(layout, shape, mesh, target=target)
        if len(layout.dims) > len(several):
            spare = next(dim for dim, axes in enumerate(layout.dims) if not axes)
            moved = tuple(axes[-1] for axes in layout.dims if axes)
            yield kinds["all_to_all"].step(layout, shape, mesh, target=target.with_dim(spare, moved))
    if len(layout.partial) > 1 and len(layout.dims) > 1:
        first, *rest = layout.partial
        target = layout.with_partial(()).with_dim(0, (*layout.dims[0], first))
        yield kinds["reduce_scatter"].step(layout, shape, mesh, target=target.with_dim(1, (*layout.dims[1], *rest)))
