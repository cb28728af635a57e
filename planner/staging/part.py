"""Some iterations of a repeated block, as a repeated block of its own."""

from __future__ import annotations

from dataclasses import replace

from ..core.graph import Block, Node, Repeat, Value
from ..core.layers import Layers, list_of, templates


def part_name(repeat: Repeat, start: int, stop: int) -> str:
    """Return the name of the iterations `start … stop-1`."""
    if (start, stop) == (0, repeat.count):
        return repeat.name
    path, layers = list_of(repeat.name)
    whole = layers or Layers(0, repeat.count * repeat.period)
    return f"{path}.{whole.part(start * repeat.period, stop * repeat.period)}"


def part_results(repeat: Repeat, start: int, stop: int) -> tuple[Value, ...]:
    """Return the outer values after the iterations `start … stop-1`."""
    name = part_name(repeat, start, stop)
    return tuple(replace(v, name=name + v.name[len(repeat.name) :]) for v in repeat.results)


def part(repeat: Repeat, start: int, stop: int, operands: tuple[str, ...]) -> Repeat:
    """Return the iterations `start … stop-1` of a repeat as one of its own that is bound to other outer values."""
    name = part_name(repeat, start, stop)
    if name == repeat.name:
        return replace(repeat, operands=operands)
    pairs = list(zip(repeat.templates, templates(name, repeat.period), strict=True))

    def renamed(text: str) -> str:
        for old, new in pairs:
            if text == old or text.startswith((f"{old}.", f"{old}/")):
                return new + text[len(old) :]
        return text

    def value(v: Value) -> Value:
        return replace(v, name=renamed(v.name))

    def node(n: Node) -> Node:
        return replace(
            n, name=renamed(n.name), operands=tuple(map(renamed, n.operands)), results=tuple(map(value, n.results)),
            module=renamed(n.module), origin=renamed(n.origin),
        )  # fmt: skip

    block = repeat.block
    return Repeat(
        name=name, count=stop - start, operands=operands, results=part_results(repeat, start, stop),
        block=Block(
            inputs=tuple(map(value, block.inputs)),
            parameters=tuple(replace(p, name=renamed(p.name)) for p in block.parameters),
            body=tuple(node(n) for n in block.nodes),
            outputs=tuple(map(renamed, block.outputs)),
        ),
    )  # fmt: skip
