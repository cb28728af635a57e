"""Reads the fields of a stranger's JSON object one by one, and shows them in messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from ..core.json_text import canonical

T = TypeVar("T")

# Far above any model, and low enough that products of sizes stay readable.
LARGEST = {
    "vocab_size": 1 << 24,
    "hidden_size": 1 << 20,
    "intermediate_size": 1 << 22,
    "num_hidden_layers": 10_000,
    "num_attention_heads": 1 << 16,
    "num_key_value_heads": 1 << 16,
    "head_dim": 1 << 16,
    "max_position_embeddings": 1 << 40,
    "original_max_position_embeddings": 1 << 40,
    "sliding_window": 1 << 40,
    "max_window_layers": 10_000,
    "moe_intermediate_size": 1 << 22,
    "num_experts": 1 << 16,
    "num_local_experts": 1 << 16,
    "num_experts_per_tok": 1 << 16,
    "n_positions": 1 << 40,
    "n_embd": 1 << 20,
    "n_layer": 10_000,
    "n_head": 1 << 16,
    "n_inner": 1 << 22,
}


class Fields:
    """Reads fields one by one and remembers every problem, so that one error can name all.

    A field that is missing, null or wrong gives its default.

    Parameters
    ----------
    values
        The object.
    prefix
        Where the object is in the file, for the messages.
    """

    def __init__(self, values: Mapping[str, object], prefix: str = "") -> None:
        self.values = values
        self.prefix = prefix
        self.problems: list[str] = []

    def integer(self, key: str, default: int = 1) -> int:
        """Return an integer from 1 to the key's entry in `LARGEST`."""
        value = self.values.get(key)
        # bool is an int to isinstance.
        if type(value) is int and 1 <= value <= LARGEST[key]:
            return value
        return self._wrong(key, value, default, f"an integer from 1 to {LARGEST[key]:,}")

    def index(self, key: str, default: int) -> int:
        """Return an integer from 0 to the key's entry in `LARGEST`."""
        value = self.values.get(key)
        return 0 if type(value) is int and value == 0 else self.integer(key, default)

    def number(self, key: str, default: float, least: float, most: float) -> float:
        """Return a finite number from `least` to `most`."""
        value = self.values.get(key)
        if type(value) in (int, float) and isinstance(value, int | float) and least <= value <= most:
            return float(value)
        return self._wrong(key, value, default, f"a number from {least:g} to {most:g}")

    def flag(self, key: str) -> bool:
        """Return a truth value; False if it is missing."""
        value = self.values.get(key)
        return value if isinstance(value, bool) else self._wrong(key, value, False, "true or false")

    def _wrong(self, key: str, value: object, default: T, wanted: str) -> T:
        if value is not None:
            self.problems.append(f"{self.prefix}{key} is {shown(value)}, not {wanted}")
        return default


def listed(items: Sequence[str]) -> str:
    """Join words as prose does."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def shown(value: object) -> str:
    """Write a value of a stranger's file in a message: as JSON would, and short."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = canonical(value)
    return text if len(text) <= 40 else text[:37] + "…"
