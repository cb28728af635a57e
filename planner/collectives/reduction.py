"""What partial results of a group come to: the reductions that a layout may name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

_REDUCE: Mapping[str, np.ufunc] = MappingProxyType(
    {"sum": np.add, "mean": np.add, "max": np.maximum, "min": np.minimum}
)


def reduced(arrays: Sequence[npt.NDArray[Any]], reduce: str) -> npt.NDArray[Any]:
    """Return the arrays reduced to one of the same element type; a mean of whole numbers is rounded down."""
    total: npt.NDArray[Any] = _REDUCE[reduce].reduce(arrays)
    if reduce != "mean":
        return total
    return total // len(arrays) if np.issubdtype(total.dtype, np.integer) else total / len(arrays)
