"""Facts: what every operator is. The table `OPS` has one entry an operator, from one file a family."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .attention import ATTENTION, ROTARY, ROTARY_TABLE
from .definition import Cut, Extent, Local, OpDef
from .elementwise import ADD, SWIGLU
from .embedding import EMBEDDING
from .loss import (
    COUNT_TARGETS,
    CROSS_ENTROPY,
    DIVIDE,
    LOG_LOSS,
    PICK_TARGET,
    ROW_MAX,
    SUM_EXP,
    SUM_TOKENS,
    TOKEN_LOSS,
)  # fmt: skip
from .matmul import LINEAR
from .norm import MEAN_SQUARE, RMS_NORM, RMS_SCALE
from .reshape import MERGE_HEADS, SPLIT_HEADS

__all__ = ["OPS", "Cut", "Extent", "Local", "OpDef"]

OPS: Mapping[str, OpDef] = MappingProxyType({
    definition.name: definition
    for definition in sorted(
        (
            ADD, ATTENTION, COUNT_TARGETS, CROSS_ENTROPY, DIVIDE, EMBEDDING, LINEAR, LOG_LOSS, MEAN_SQUARE,
            MERGE_HEADS, PICK_TARGET, RMS_NORM, RMS_SCALE, ROTARY, ROTARY_TABLE, ROW_MAX, SPLIT_HEADS, SUM_EXP,
            SUM_TOKENS, SWIGLU, TOKEN_LOSS,
        ),
        key=lambda definition: definition.name,
    )
})  # fmt: skip
