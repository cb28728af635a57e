"""What a collective asks of a layout, as checks that say values and remedy."""

from __future__ import annotations

from ..core.collective import Part, further
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


def moved(kind: str, layout: Layout, mesh: DeviceMesh, target: Layout | None) -> Layout:
    """Check that there is a target, another layout of the same tensor, with the same partial results; return it."""
    if target is None:
        raise LayoutError("collective.no-target", f"{kind} on {layout} names no target.", "Give a layout.")
    same_rank(kind, layout, target)
    _same_partial(kind, layout, target)
    if layout.normal(mesh) == target.normal(mesh):
        raise LayoutError(
            "collective.no-axes", f"{kind} from {layout} to {target} has nothing to move.", "Leave it out."
        )
    return target


def same_rank(kind: str, layout: Layout, target: Layout) -> None:
    """Check that both are layouts of tensors with as many dims."""
    if len(target.dims) != len(layout.dims):
        raise LayoutError(
            "layout.rank-mismatch",
            f"{kind} from {layout} to {target}: {len(layout.dims)} dims and {len(target.dims)}.",
            "Give layouts of the same tensor.",
        )


def gathered(kind: str, layout: Layout, target: Layout) -> Layout:
    """Check that several dims lose axes on their minor side and nothing else changes; return the target."""
    same_rank(kind, layout, target)
    _several(kind, layout, target, further(target, layout), ())
    _same_partial(kind, layout, target)
    return target


def scattered(kind: str, layout: Layout, target: Layout) -> Layout:
    """Check that several dims gain the partial axes that go, and nothing else changes; return the target."""
    same_rank(kind, layout, target)
    given = further(layout, target)
    _several(kind, layout, target, given, ())
    left = partial(kind, layout, axes_of(given))
    if (left.partial, left.reduce) != (target.partial, target.reduce):
        raise LayoutError(
            "collective.partial-changed",
            f"{kind} from {layout} to {target} leaves results over {'·'.join(left.partial) or 'no axis'} partial.",
            f"Name a target with {left.reduce}({'·'.join(left.partial)})." if left.partial else "Leave none partial.",
        )
    return target


def regrouped(kind: str, layout: Layout, target: Layout) -> Layout:
    """Check that some dims lose axes on their minor side, which others gain, and nothing else changes; return it.

    One dim that gives its axes to one other in the same order is named by dims instead.
    """
    same_rank(kind, layout, target)
    taken, given = further(target, layout), further(layout, target)
    if set(axes_of(taken)) != set(axes_of(given)):
        raise LayoutError(
            "collective.axes-kept",
            f"{kind} from {layout} to {target}: dims lose {'·'.join(axes_of(taken)) or 'no axis'} and gain "
            f"{'·'.join(axes_of(given)) or 'none'}.",
            "Give all axes that are taken to other dims.",
        )
    _several(kind, layout, target, taken, given)
    _same_partial(kind, layout, target)
    return target


def axes_of(parts: tuple[Part, ...]) -> Axes:
    """Return the axes of several dims, those of the first one major."""
    return tuple(axis for _, axes in parts for axis in axes)


def _several(kind: str, layout: Layout, target: Layout, parts: tuple[Part, ...], others: tuple[Part, ...]) -> None:
    dims = {dim for dim, _ in (*parts, *others)}
    changed = [dim for dim, (a, b) in enumerate(zip(layout.dims, target.dims, strict=True)) if a != b]
    wrong = [dim for dim in changed if dim not in dims]
    if wrong or not parts:
        raise LayoutError(
            "collective.dims",
            f"{kind} can't lead from {layout} to {target}"
            + (f": dim {wrong[0]} changes otherwise than on its minor side." if wrong else "."),
            "Name a target that it leads to, or use an exchange.",
        )
    if len(parts) == 1 and (not others or [axes for _, axes in others] == [parts[0][1]]):
        raise LayoutError(
            "collective.one-dim",
            f"{kind} from {layout} to {target} takes {'·'.join(parts[0][1])} on one dim only.",
            f"Name dim {parts[0][0]} and {'·'.join(parts[0][1])} instead of the target.",
        )


def _same_partial(kind: str, layout: Layout, target: Layout) -> None:
    if (layout.partial, layout.reduce) != (target.partial, target.reduce):
        raise LayoutError(
            "collective.partial-changed",
            f"{kind} from {layout} to {target} can't reduce or make partial results.",
            "Reduce them before it, or make them after it.",
        )
