"""What no redistribution can do without: what a rank needs minus what it holds."""

from __future__ import annotations

from ..collectives.boxes import demand
from ..core.layout import Layout
from ..core.mesh import DeviceMesh


def lower_bound_elements(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> int | None:
    """Return the elements that the neediest rank must receive; None if a layout has partial axes.

    With partial axes "needs minus holds" has no meaning: the sum of what a rank holds can be split
    over the ranks in many ways.

    Raises
    ------
    LayoutError
        `layout.uneven-unsupported`, `layout.rank-mismatch`, `mesh.axis-unknown`.
    """
    source.require_even(shape, mesh)
    target.require_even(shape, mesh)
    before, after = source.normal(mesh), target.normal(mesh)
    if before.partial or after.partial:
        return None
    return 0 if before == after else demand(before, after, shape, mesh).received
