"""Facts about collectives: checked functions layout → layout, what they move, and what they do.

To add one: a file for its family, a line in the table below, and a row in `tests/collectives`.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..core.stage import SEND_RECV
from .all_gather import ALL_GATHER
from .all_reduce import ALL_REDUCE
from .all_to_all import ALL_TO_ALL
from .definition import Call, CollectiveDef, World
from .exchange import EXCHANGE
from .pad import PAD
from .permute import PERMUTE
from .reduce_scatter import REDUCE_SCATTER
from .slice import SLICE
from .sum_exchange import SUM_EXCHANGE
from .zero import ZERO

COLLECTIVES: Mapping[str, CollectiveDef] = MappingProxyType(
    {
        "all_gather": ALL_GATHER,
        "all_reduce": ALL_REDUCE,
        "all_to_all": ALL_TO_ALL,
        "exchange": EXCHANGE,
        "pad": PAD,
        "permute": PERMUTE,
        "reduce_scatter": REDUCE_SCATTER,
        "slice": SLICE,
        "sum_exchange": SUM_EXCHANGE,
        "zero": ZERO,
    }
)

__all__ = ["COLLECTIVES", "Call", "CollectiveDef", "World", "is_local"]


def is_local(kind: str) -> bool:
    """Return whether nothing is sent; a message between stages is no collective of the table, and is sent."""
    return kind != SEND_RECV and COLLECTIVES[kind].local
