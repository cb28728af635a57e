"""What a request may ask for at most, so that no request keeps the server busy for long."""

from __future__ import annotations

from planner.core.crossing import Holding
from planner.core.json_text import JsonBounds
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError, PlannerError
from planner.redistribution import meet

MAX_BODY = 2 << 20
MAX_UPLOAD = 64 << 20
MAX_CONFIG = 1 << 20
# The search for a redistribution grows steeply with the axes that it may use.
MAX_AXES = 6
MAX_MOVED_AXES = 5
MAX_DEVICES = 1 << 17
MAX_DIMS = 8
MAX_SIZE = 1 << 48
# Between two meshes, who holds what is compared rank by rank.
MAX_CROSSED = 1 << 10
JSON = JsonBounds(error=PlannerError, prefix="http", max_bytes=MAX_BODY, max_depth=32)


def check_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """Return the mesh if it is within the limits.

    Raises
    ------
    LayoutError
        `http.mesh-too-large`.
    """
    if len(mesh.axes) > MAX_AXES or mesh.device_count > MAX_DEVICES:
        raise LayoutError(
            "http.mesh-too-large",
            f"The mesh has {len(mesh.axes)} axes and {mesh.device_count:,} ranks; the server takes at most {MAX_AXES} "
            f"axes and {MAX_DEVICES:,} ranks.",
            "Use fewer, or call planner from Python.",
            subject="mesh",
        )
    return mesh


def check_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape if it is within the limits.

    Raises
    ------
    LayoutError
        `http.shape-too-large`.
    """
    if len(shape) > MAX_DIMS or max(shape, default=1) > MAX_SIZE:
        raise LayoutError(
            "http.shape-too-large",
            f"The shape has {len(shape)} dims, the largest of {max(shape):,}; the server takes at most {MAX_DIMS} "
            f"dims of {MAX_SIZE:,}.",
            "Use a smaller one, or call planner from Python.",
            subject="shape",
        )
    return shape


def check_moved(source: Layout, target: Layout, mesh: DeviceMesh) -> None:
    """Refuse a redistribution that would take too long to plan.

    Raises
    ------
    LayoutError
        `http.axes-too-many`.
    """
    moved = [axis for axis in mesh.names if axis in source.used | target.used and mesh.size(axis) > 1]
    if len(moved) > MAX_MOVED_AXES:
        raise LayoutError(
            "http.axes-too-many",
            f"The layouts use {len(moved)} axes; the server plans at most {MAX_MOVED_AXES}.",
            "Use fewer, or call planner from Python.",
            subject=", ".join(moved),
        )


def check_crossed(source: Holding, target: Holding) -> None:
    """Refuse a redistribution between meshes or shapes that would take too long to plan.

    Raises
    ------
    LayoutError
        `http.mesh-too-large`, `http.axes-too-many`.
    """
    for end in (source, target):
        if end.mesh.device_count > MAX_CROSSED:
            raise LayoutError(
                "http.mesh-too-large",
                f"The mesh has {end.mesh.device_count:,} ranks; between meshes and through reshapes the server takes "
                f"at most {MAX_CROSSED:,}.",
                "Use fewer, or call planner from Python.",
                subject="mesh",
            )
    met = meet(source, target)
    if met is not None:
        check_moved(met.source.layout, met.target.layout, met.source.mesh)
