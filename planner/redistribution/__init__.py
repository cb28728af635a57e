"""Stage 3: the cheapest way from layout to layout, for every value and its readers."""

from __future__ import annotations

from .bound import lower_bound_elements
from .fanout import distribute
from .path import plan_redistribution

__all__ = ["distribute", "lower_bound_elements", "plan_redistribution"]
