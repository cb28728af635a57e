"""Pretend ranks in one process: what every rank holds of a tensor, and what a redistribution does to it."""

from __future__ import annotations

from .arrivals import arrivals
from .crossing import Crossed, leg_arrivals, run_crossing
from .run import State, run
from .slices import MAX_RANKS, SliceMap, assemble, mismatch, scatter, slice_map, slices

__all__ = [
    "MAX_RANKS", "Crossed", "SliceMap", "State", "arrivals", "assemble", "leg_arrivals", "mismatch", "run",
    "run_crossing", "scatter", "slice_map", "slices",
]  # fmt: skip
