"""Stage 4: the backward redistributions, from one rule for all operators."""

from __future__ import annotations

from .differentiate import differentiate

__all__ = ["differentiate"]
