"""Door: the command `shardwright`. A command reads options, calls the planner and prints; it plans nothing itself."""

from __future__ import annotations

from .app import app

__all__ = ["app"]
