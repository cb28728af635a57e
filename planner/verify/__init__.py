"""Hold what the stages make to its invariants."""

from __future__ import annotations

from .graph import verify_graph
from .training import verify_training

__all__ = ["verify_graph", "verify_training"]
