"""How long a sequence may be: as many tokens as the table of learnt positions has rows, where there is one."""

from __future__ import annotations

from collections.abc import Mapping

from ...core.graph import Block, Node
from ...core.symbol import parse, symbol

_SAME = frozenset({"reshape", "unsqueeze", "squeeze", "expand", "permute", "cast", "to_integer"})
"""Operators that leave the numbers of positions what they are."""
_TABLE = {"embedding": (1, 0), "index_select": (0, 1)}
"""Operators that pick rows: places of the table and of what picks them."""


def longest_seq(block: Block) -> int:
    """Return how many tokens the tables of positions in a block are good for; 0 where there is none."""
    makers = {value.name: node for node in block.nodes for value in node.results}
    rows = {parameter.name: parameter.meta.shape[0] for parameter in block.parameters if parameter.meta.shape}
    found: list[int] = []
    for node in block.nodes:
        if node.op not in _TABLE:
            continue
        table, index = (node.operands[place] for place in _TABLE[node.op])
        size, first = rows.get(table), _first(index, makers)
        if isinstance(size, int) and first is not None:
            found.append(size - first)
    return min(found, default=0)


def _first(name: str, makers: Mapping[str, Node]) -> int | None:
    """Return the position of the first token of a sequence that a value counts; None for any other value."""
    offset = 0
    while (node := makers.get(name)) is not None:
        attributes = dict(node.attributes)
        if node.op == "arange":
            counts = parse(str(attributes["sizes"])) == symbol("S") and attributes.get("step", 1) == 1
            start = attributes.get("start", 0)
            return offset + start if counts and isinstance(start, int) else None
        amount = attributes.get("amount", 0)
        if node.op == "shift" and isinstance(amount, int):
            offset += amount
        elif node.op not in _SAME:
            return None
        name = node.operands[0]
    return None
