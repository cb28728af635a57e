"""Nodes of the operators that move, pick, reduce and order along dims, for `cases`."""

from collections.abc import Callable

from planner.core.graph import Node
from planner.core.tensor import TensorMeta

Make = Callable[..., Node]
Meta = Callable[..., TensorMeta]


def cases_of_shapes(node: Make, meta: Meta) -> dict[str, Node]:
    """Return the cases; `node` and `meta` build them."""
    return _selections(node, meta) | _joins(node, meta) | _views(node, meta)


def _selections(node: Make, meta: Meta) -> dict[str, Node]:
    x = meta(4, 8, 4)
    return {
        "slice": node("slice", x, dim=1, start=1, stop=5),
        "slice-step": node("slice", x, dim=1, start=0, stop=6, step=3),
        "slice-stride": node("slice", x, dim=1, start=1, step=2),
        "select": node("select", x, dim=1, index=-3),
        "flip": node("flip", x, dim=1),
        "roll": node("roll", x, dim=1, shift=3),
        "pad": node("pad", x, dim=1, before=1, after=3),
        "pad-value": node("pad", x, dim=1, before=2, value=1.5),
    }


def _joins(node: Make, meta: Meta) -> dict[str, Node]:
    x, longer = meta(4, 4, 8), meta(4, 6, 8)
    return {
        "concat": node("concat", x, x, dim=1),
        "concat-unequal": node("concat", x, longer, dim=1),
        "concat-three": node("concat", x, x, x, dim=-1),
        "repeat": node("repeat", x, times=(1, 2, 1)),
        "repeat_interleave": node("repeat_interleave", x, dim=1, times=2),
        "split": node("split", x, dim=2, sizes=(4, 4)),
        "split-unequal": node("split", x, dim=2, sizes=(2, 6)),
        "stack": node("stack", x, x, dim=1),
    }


def _views(node: Make, meta: Meta) -> dict[str, Node]:
    return {
        "expand": node("expand", meta(4, 1, 8), sizes="4, 6, 8"),
        "expand-leading": node("expand", meta(4, 8), sizes="B, 4, 8"),
        "permute": node("permute", meta(4, 4, 8), dims=(1, 2, 0)),
        "squeeze": node("squeeze", meta(4, 1, 8), dim=1),
        "unsqueeze": node("unsqueeze", meta(4, 8), dim=1),
    }
