"""Facts: what every operator is. The table `OPS` has one entry an operator, from one file a family."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .attention import ATTENTION, ROTARY, ROTARY_TABLE
from .constant import CONSTANTS
from .definition import Cut, Extent, Local, OpDef
from .einsum import PRODUCTS
from .elementwise import ADD, SWIGLU
from .embedding import EMBEDDING, EMBEDDING_BAG
from .index import INDEXED
from .join import JOINS
from .loss import (
    COUNT_TARGETS,
    CROSS_ENTROPY,
    DIVIDE,
    LOG_LOSS,
    PICK_TARGET,
    SUM_TOKENS,
    TOKEN_LOSS,
)  # fmt: skip
from .matmul import LINEAR
from .norm import MEAN_SQUARE, RMS_NORM, RMS_SCALE
from .reduce import REDUCTIONS
from .reshape import MERGE_HEADS, SPLIT_HEADS
from .running import RUNNING
from .select import SELECTIONS
from .softmax import LOG_SOFTMAX, LOG_SOFTMAX_SHIFT, ROW_MAX, SOFTMAX, SOFTMAX_SCALE, SUM_EXP
from .top import TOPS
from .views import VIEWS

__all__ = ["OPS", "Cut", "Extent", "Local", "OpDef"]

OPS: Mapping[str, OpDef] = MappingProxyType({
    definition.name: definition
    for definition in sorted(
        (
            ADD, SWIGLU,
            LINEAR, EMBEDDING, EMBEDDING_BAG,
            ATTENTION, ROTARY, ROTARY_TABLE, MERGE_HEADS, SPLIT_HEADS,
            MEAN_SQUARE, RMS_NORM, RMS_SCALE,
            LOG_SOFTMAX, LOG_SOFTMAX_SHIFT, ROW_MAX, SOFTMAX, SOFTMAX_SCALE, SUM_EXP,
            COUNT_TARGETS, CROSS_ENTROPY, DIVIDE, LOG_LOSS, PICK_TARGET, SUM_TOKENS, TOKEN_LOSS,
            *CONSTANTS, *INDEXED, *JOINS, *PRODUCTS, *RUNNING, *TOPS, *REDUCTIONS, *SELECTIONS, *VIEWS,
        ),
        key=lambda definition: definition.name,
    )
})  # fmt: skip
