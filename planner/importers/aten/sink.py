"""Puts what reads nothing where its module runs: a buffer's constant before its first reader, not before everything.

Layers that hold buffers, such as the biases of a router, stand together then, and are found to be equal.
"""

from __future__ import annotations

from dataclasses import replace

from ...core.graph import Block, Node, Repeat


def sink(block: Block) -> Block:
    """Return the block with every node that reads nothing right before its first reader, if that is of its module."""
    first: dict[str, Node | Repeat] = {}
    for item in block.body:
        for name in item.operands:
            first.setdefault(name, item)
    waiting: dict[int, list[Node | Repeat]] = {}
    sunk: set[int] = set()
    for item in block.body:
        reader = first.get(item.results[0].name) if item.results else None
        if isinstance(item, Node) and not item.operands and isinstance(reader, Node) and reader.module == item.module:
            waiting.setdefault(id(reader), []).append(item)
            sunk.add(id(item))
    body: list[Node | Repeat] = []
    for item in block.body:
        if id(item) not in sunk:
            body += [*waiting.get(id(item), ()), item]
    return replace(block, body=tuple(body))
