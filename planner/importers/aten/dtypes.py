"""Element types of models that a plan does not have by that name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

WIDENED: Mapping[str, str] = MappingProxyType({"uint8": "int32", "int8": "int32", "int16": "int32"})
"""Element types that a plan does not have, and the wider ones that stand for them."""
FLOATING = frozenset({"compute", "float64", "float32", "bfloat16", "float16"})
"""Element types of numbers that may have gradients."""
