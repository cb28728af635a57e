"""Stage 4: the backward redistributions, from one rule for all operators, and what of them is done together."""

from __future__ import annotations

from .buckets import fill_buckets
from .differentiate import differentiate

__all__ = ["differentiate", "fill_buckets"]
