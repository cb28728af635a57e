"""Hold what the stages make to its invariants."""

from __future__ import annotations

from .graph import verify_graph
from .schedule import verify_schedule
from .training import verify_training

__all__ = ["verify_graph", "verify_schedule", "verify_training"]
