"""Calls become what people call them: patterns on ATen calls → calls with targets `fused.NAME`."""

from __future__ import annotations

from collections.abc import Callable

from ..program import Program
from .activations import ACTIVATION, GATE
from .attention import ATTENTION, grouped
from .experts import EXPERTS
from .heads import LIFT, MERGE_HEADS, SPLIT_HEADS
from .linear import PARTED, TRANSPOSED
from .loss import CROSS_ENTROPY
from .positions import BROADCAST, POSITIONS
from .rewrite import Pattern, apply
from .rms_norm import RMS_NORM
from .rotary import ROTARY
from .rows import unflattened
from .views import CAST, VIEW

PATTERNS: tuple[Pattern | Callable[[Program], Program], ...] = (
    unflattened, VIEW, TRANSPOSED, PARTED, RMS_NORM, CAST, ROTARY, LIFT, LIFT, SPLIT_HEADS, ATTENTION, MERGE_HEADS,
    grouped, ACTIVATION, GATE, EXPERTS, CAST, VIEW, CROSS_ENTROPY, POSITIONS, BROADCAST,
)  # fmt: skip
"""In the order in which they are tried; later ones build on what earlier ones made."""


def fuse(program: Program) -> Program:
    """Return the program with every pattern put in wherever it fits."""
    for step in PATTERNS:
        program = apply(step, program) if isinstance(step, Pattern) else step(program)
    return program
