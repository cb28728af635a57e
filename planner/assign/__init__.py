"""Stage 2: decisions → a strategy for every node and layouts for every parameter."""

from __future__ import annotations

from .assign import assign

__all__ = ["assign"]
