"""Stage 2: decisions → a strategy for every node and layouts for every parameter."""

from __future__ import annotations

from .assign import assign
from .choices import choices
from .samples import sample_dim, sample_factors
from .target import covers, span

__all__ = ["assign", "choices", "covers", "sample_dim", "sample_factors", "span"]
