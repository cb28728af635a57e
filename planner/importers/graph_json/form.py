"""What writer and reader of graph JSON agree on: format, version, bounds, and how numbers are written.

JSON has no infinity, and integers of more than 18 digits are refused by our reader of JSON; such numbers are written
as `{"float": "-inf"}` and `{"int": "9223372036854775807"}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import MappingProxyType

from ...core.graph import Attribute, Feed
from ...core.json_text import JsonBounds
from ...errors import ModelError

FORMAT = "shardwright-graph"
VERSION = 1
BOUNDS = JsonBounds(error=ModelError, prefix="model", max_bytes=16 << 20, max_depth=16, max_values=3_000_000)
MAX_ITEMS = 200_000
"""Operators, parameters and inputs of all blocks together, and as many modules."""
MAX_COUNT = 100_000
"""Iterations of a repeated block."""
MAX_TEXT = 10_000
"""Characters of an attribute."""
FEED_DEFAULTS: Mapping[str, object] = MappingProxyType(
    {field.name: field.default for field in fields(Feed) if field.default is not MISSING}
)
"""What is left out of the entry of a feed."""
_PLAIN = 10**18
_INT64 = 1 << 63


def to_plain(value: Attribute) -> object:
    """Return an attribute as JSON says it.

    Raises
    ------
    ModelError
        `model.graph-number` for a number that no file can hold.
    """
    if isinstance(value, tuple):
        return [to_plain(part) for part in value]
    if isinstance(value, float) and math.isinf(value):
        return {"float": str(value)}
    if isinstance(value, int) and abs(value) >= _PLAIN and -_INT64 <= value < _INT64:
        return {"int": str(value)}
    if (isinstance(value, float) and math.isnan(value)) or (isinstance(value, int) and abs(value) >= _PLAIN):
        raise ModelError(
            "model.graph-number", f"A graph holds the number {value}, which its file can't.",
            "Use numbers of 64 bits.",
        )  # fmt: skip
    return value


def from_plain(value: object) -> Attribute | None:
    """Return the attribute that a JSON value says; None if it says none."""
    if isinstance(value, list):
        parts = [from_plain(part) for part in value]
        if any(part is None or isinstance(part, str | tuple) for part in parts):
            return None
        return tuple(parts)  # type: ignore[return-value]
    if isinstance(value, dict):
        return _tagged(value)
    return value if isinstance(value, bool | int | float | str) else None


def _tagged(value: dict[str, object]) -> int | float | None:
    if value in ({"float": "inf"}, {"float": "-inf"}):
        return float(str(value["float"]))
    text = value.get("int")
    if len(value) != 1 or not isinstance(text, str) or not text.isascii() or len(text) > 20:
        return None
    if not text.removeprefix("-").isdigit():
        return None
    number = int(text)
    return number if abs(number) >= _PLAIN and -_INT64 <= number < _INT64 else None
