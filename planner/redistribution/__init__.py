"""Stage 3: from layouts that readers ask for to the collectives that deliver them."""

from __future__ import annotations

from .bound import Bound, bound, lower_bound_elements
from .crossing import plan_crossing
from .fanout import distribute
from .options import DEFAULT_OPTIONS, OBJECTIVES, SearchOptions
from .path import Planner, plan_redistribution
from .prices import Floor, Price

__all__ = [
    "DEFAULT_OPTIONS", "OBJECTIVES", "Bound", "Floor", "Planner", "Price", "SearchOptions", "bound", "distribute",
    "lower_bound_elements", "plan_crossing", "plan_redistribution",
]  # fmt: skip
