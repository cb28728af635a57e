"""What a collective asks of a layout, as checks that say values and remedy."""

from __future__ import annotations

from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..errors import LayoutError


def named(kind: str, layout: Layout, mesh: DeviceMesh, axes: Axes) -> None:
    """Check that there are axes, each once and of the mesh."""
    if not axes:
        raise LayoutError(
            "collective.no-axes",
            f"{kind} on {layout} names no mesh axis.",
            f"Name at least one of: {', '.join(mesh.names)}.",
        )
    if len(set(axes)) < len(axes):
        raise LayoutError(
            "collective.axis-repeated",
            f"{kind} on {layout} names an axis twice: {'·'.join(axes)}.",
            "Name each axis once.",
        )
    mesh.size_of(axes)


def dim_exists(kind: str, layout: Layout, dim: int) -> None:
    """Check that the tensor has this dim."""
    if not 0 <= dim < len(layout.dims):
        raise LayoutError(
            "collective.dim",
            f"{kind} on {layout} names dim {dim}, the tensor has {len(layout.dims)} dims.",
            f"Name a dim from 0 to {len(layout.dims) - 1}." if layout.dims else "A scalar has no dim to name.",
        )


def suffix(kind: str, layout: Layout, dim: int, axes: Axes) -> Layout:
    """Check that `axes` is the minor side of the dim; return the layout without them."""
    dim_exists(kind, layout, dim)
    held = layout.dims[dim]
    if held[len(held) - len(axes) :] != axes:
        raise LayoutError(
            "collective.not-minor",
            f"{kind} over {'·'.join(axes)} on dim {dim} of {layout}: that dim is sharded over "
            f"{'·'.join(held) or 'nothing'}, which does not end with {'·'.join(axes)}.",
            f"Name a minor-side part of {'·'.join(held)}, in its order."
            if held
            else "Name a dim that these axes shard.",
        )
    return layout.with_dim(dim, held[: len(held) - len(axes)])


def partial(kind: str, layout: Layout, axes: Axes) -> Layout:
    """Check that the layout is partial over the axes; return it without them."""
    missing = tuple(axis for axis in axes if axis not in layout.partial)
    if missing:
        raise LayoutError(
            "collective.not-partial",
            f"{kind} over {'·'.join(axes)} on {layout}: it is not partial over {'·'.join(missing)}.",
            f"Name some of the partial axes: {', '.join(layout.partial)}."
            if layout.partial
            else "There is nothing to reduce in this layout.",
        )
    return layout.with_partial(tuple(axis for axis in layout.partial if axis not in axes))


def replicated(kind: str, layout: Layout, mesh: DeviceMesh, axes: Axes) -> None:
    """Check that the layout is replicated over the axes."""
    taken = tuple(axis for axis in axes if axis in layout.used)
    if taken:
        free = ", ".join(axis for axis in mesh.names if axis not in layout.used)
        raise LayoutError(
            "collective.not-replicated",
            f"{kind} over {'·'.join(axes)} on {layout}: {'·'.join(taken)} is used already.",
            f"Name axes that the layout replicates: {free or 'it has none'}.",
        )


def sums(kind: str, layout: Layout) -> None:
    """Check that what is partial in the layout, if anything, is partial sums."""
    if layout.reduce != "sum":
        raise LayoutError(
            "collective.not-sum",
            f"{kind} on {layout}: only partial sums allow it, these are partial {layout.reduce}.",
            f"All-reduce over {'·'.join(layout.partial)} first.",
        )
