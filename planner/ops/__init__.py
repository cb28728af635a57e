"""Facts: what every operator is. The table `OPS` has one entry an operator, from one file a family."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from .attention import ATTENTIONS
from .attention_parts import ATTENTION_PARTS
from .constant import CONSTANTS
from .convolution import CONV_TRANSPOSE, CONVOLUTION
from .definition import Cut, Extent, Local, OpDef
from .dropout import DROPOUT
from .einsum import PRODUCTS
from .elementwise import ELEMENTWISE
from .embedding import EMBEDDING, EMBEDDING_BAG
from .experts import EXPERTS
from .halo import BORDERS, EXTEND
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
from .matmul import EXPERT_LINEAR, LINEAR, MATMUL
from .mean_loss import MEAN_LOSSES
from .moments import MOMENTS, NORMALIZE, NORMS
from .norm import L2_NORM, L2_SCALE, RMS_NORM, RMS_SCALE
from .pooling import POOLS
from .receive import RECEIVED
from .recurrent import RECURRENT
from .reduce import REDUCTIONS
from .regroup import RESHAPE
from .reshape import MERGE_HEADS, SPLIT_HEADS
from .rotary import ROTARY, ROTARY_TABLE
from .rows import MEAN_SQUARE, ROW_MAX, SUM_EXP
from .running import RUNNING
from .select import SELECTIONS
from .softmax import LOG_SOFTMAX, LOG_SOFTMAX_SHIFT, SOFTMAX, SOFTMAX_SCALE
from .top import TOPS
from .unknown import UNKNOWN
from .views import VIEWS

__all__ = ["OPS", "UNKNOWN", "Cut", "Extent", "Local", "OpDef"]

OPS: Mapping[str, OpDef] = MappingProxyType({
    definition.name: definition
    for definition in sorted(
        (
            *ELEMENTWISE,
            LINEAR, MATMUL, EXPERT_LINEAR, *EXPERTS, *RECURRENT, UNKNOWN, CONVOLUTION, CONV_TRANSPOSE, BORDERS, EXTEND,
            *POOLS.values(), RECEIVED,
            EMBEDDING, EMBEDDING_BAG, DROPOUT,
            *ATTENTIONS.values(), *ATTENTION_PARTS, ROTARY, ROTARY_TABLE, MERGE_HEADS, SPLIT_HEADS,
            RESHAPE,
            MEAN_SQUARE, RMS_NORM, RMS_SCALE, L2_NORM, L2_SCALE, *NORMS.values(), MOMENTS, NORMALIZE,
            LOG_SOFTMAX, LOG_SOFTMAX_SHIFT, ROW_MAX, SOFTMAX, SOFTMAX_SCALE, SUM_EXP,
            COUNT_TARGETS, CROSS_ENTROPY, DIVIDE, LOG_LOSS, PICK_TARGET, SUM_TOKENS, TOKEN_LOSS, *MEAN_LOSSES,
            *CONSTANTS, *INDEXED, *JOINS, *PRODUCTS, *RUNNING, *TOPS, *REDUCTIONS, *SELECTIONS, *VIEWS,
        ),
        key=lambda definition: definition.name,
    )
})  # fmt: skip
