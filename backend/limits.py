"""What a request may ask for at most, so that no request keeps the server busy for long."""

from __future__ import annotations

from planner.core.json_text import JsonBounds
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError, PlannerError

MAX_BODY = 2 << 20
MAX_CONFIG = 1 << 20
MAX_AXES = 8
MAX_DEVICES = 1 << 17
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
