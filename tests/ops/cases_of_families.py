"""Nodes of the operator families that models outside of decoders need, for `cases`."""

from collections.abc import Callable

from planner.core.graph import Node
from planner.core.tensor import TensorMeta

Make = Callable[..., Node]
Meta = Callable[..., TensorMeta]


def cases_of_families(node: Make, meta: Meta) -> dict[str, Node]:
    """Return the cases; `node` and `meta` build them."""
    return _softmax(node, meta)


def _softmax(node: Make, meta: Meta) -> dict[str, Node]:
    stream, rows = meta(4, 4, 8), meta(4, 4, dtype="float32")
    return {
        "softmax": node("softmax", stream),
        "softmax-middle": node("softmax", stream, dim=1),
        "softmax_scale": node("softmax_scale", stream, rows, rows),
        "log_softmax": node("log_softmax", stream, dim=2),
        "log_softmax_shift": node("log_softmax_shift", stream, rows, rows),
        "row_max-first": node("row_max", meta(8, 4), dim=0),
        "sum_exp-middle": node("sum_exp", meta(4, 8, 4), rows, dim=1),
    }
