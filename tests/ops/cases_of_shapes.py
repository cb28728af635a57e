"""Nodes of the operators that move, pick, reduce and order along dims, for `cases`."""

from collections.abc import Callable

from planner.core.graph import Node
from planner.core.tensor import TensorMeta

Make = Callable[..., Node]
Meta = Callable[..., TensorMeta]


def cases_of_shapes(node: Make, meta: Meta) -> dict[str, Node]:
    """Return the cases; `node` and `meta` build them."""
    return _selections(node, meta)


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
