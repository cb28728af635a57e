"""Lowers a program to operators: the table `TARGETS` has a row for each ATen call that `OPS` can express.

A row adds nodes for a call and returns what its results are. A call without a row, or one that its row can't express
with these arguments, becomes the operator `unknown`, which says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..program import Program
from .attention import ATTENTION
from .complex import COMPLEX
from .creation import CREATION
from .elements import ELEMENTS
from .flat import Flat
from .fused import FUSED
from .indices import INDICES
from .losses import LOSSES
from .lowering import lowered
from .norms import NORMS
from .parts import PARTS
from .products import PRODUCTS
from .recurrent import RECURRENT
from .reductions import REDUCTIONS
from .site import Held, Number, Row, Site, UnloweredError
from .space import SPACE
from .views import VIEWS

__all__ = ["TARGETS", "Flat", "Held", "Number", "Row", "Site", "UnloweredError", "lower"]

TARGETS: Mapping[str, Row] = MappingProxyType({
    **VIEWS, **PARTS, **ELEMENTS, **CREATION, **REDUCTIONS, **PRODUCTS, **SPACE, **NORMS, **LOSSES, **INDICES,
    **COMPLEX, **ATTENTION, **RECURRENT, **FUSED,
})  # fmt: skip


def lower(program: Program) -> Flat:
    """Return the operators of a program.

    Raises
    ------
    ModelError
        `model.buffer-values`, `model.operator-unknown` or `model.loss-constant`.
    """
    return lowered(program, TARGETS)
