"""Writes JSON as a person would: what fits on a line stays on it, an object of a list has its own.

Invariant: the text depends on the value and the order of its keys only.
"""

from __future__ import annotations

import json

WIDTH = 100


def pretty(value: object, indent: int = 0) -> str:
    """Return the JSON text of `value`, whose first line starts at column `indent`."""
    line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    inner = indent + 2
    if isinstance(value, dict) and value and (not indent or indent + len(line) >= WIDTH):
        items = [f"{pretty(key)}: {pretty(item, inner)}" for key, item in value.items()]
        return _broken("{}", items, indent)
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return _broken("[]", [pretty(item, inner) for item in value], indent)
    return line


def _broken(brackets: str, items: list[str], indent: int) -> str:
    pad = " " * indent
    lines = ",\n".join(f"{pad}  {item}" for item in items)
    return f"{brackets[0]}\n{lines}\n{pad}{brackets[1]}"
