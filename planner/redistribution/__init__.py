"""Stage 3: from layouts that readers ask for to the collectives that deliver them."""

from __future__ import annotations

from .bound import lower_bound_elements
from .crossing import plan_crossing
from .fanout import distribute
from .path import plan_redistribution

__all__ = ["distribute", "lower_bound_elements", "plan_crossing", "plan_redistribution"]
