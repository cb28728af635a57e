"""What `fold_constants` and `fuse` made of several calls: mostly the operator of the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ....core.graph import Attribute
from ....core.symbol import Size
from ..program import Argument
from .site import Row, Site, UnloweredError, text

SAME = (
    "attention", "attention_scores", "attend", "collect", "cross_entropy", "dispatch", "expert_linear",
    "full_attention", "geglu", "hide_future", "merge_heads", "place", "rms_norm", "rotary", "rotary_table", "route",
    "split_heads", "swiglu", "window_attention",
)  # fmt: skip
"""Operators whose operands and attributes are the arguments and keywords of the call."""


def _attribute(value: Argument) -> Attribute:
    if isinstance(value, int | float | str | bool):
        return value
    if isinstance(value, tuple):
        whole = tuple(v for v in value if isinstance(v, int))
        return whole if len(whole) == len(value) else tuple(float(v) for v in value if isinstance(v, int | float))
    raise UnloweredError(f"its attribute is {value!r}")


def _same(op: str) -> Callable[[Site], tuple[str, ...]]:
    def row(at: Site) -> tuple[str, ...]:
        operands = (at.x(place) for place in range(len(at.call.arguments)))
        return at.nodes(op, *operands, **{key: _attribute(value) for key, value in at.call.keywords})

    return row


def _causal_mask(at: Site) -> str:
    """Lower a mask of the keys up to a query's place, of a window or a chunk of them."""
    *_, queries, keys = at.made.shape
    window, chunk = (at.argument(9, name) for name in ("window", "chunk"))
    if window is None and chunk is None:
        return _mask(at, at.node("causal_mask", sizes=text((queries, keys))))
    i, j = _places(at, queries, 1), _places(at, keys, 0)
    seen = at.node("compare", j, i, relation="le")
    if window is not None:
        first = at.node("shift", i, amount=-at.integer(9, "window"))
        seen = at.node("logical_and", seen, at.node("compare", j, first, relation="gt"))
    if chunk is not None:
        size = at.full((), at.integer(9, "chunk"), "int64")
        mine, its = (at.node("floor_divide", place, size) for place in (i, j))
        seen = at.node("logical_and", seen, at.node("compare", mine, its, relation="eq"))
    return _mask(at, seen)


def _window_mask(at: Site) -> str:
    """Lower a mask of the keys that are near a query, before and after it."""
    *_, queries, keys = at.made.shape
    i, j, reach = _places(at, queries, 1), _places(at, keys, 0), at.integer(9, "reach")
    before = at.node("compare", j, at.node("shift", i, amount=-reach), relation="ge")
    after = at.node("compare", j, at.node("shift", i, amount=reach), relation="le")
    return _mask(at, at.node("logical_and", before, after))


def _places(at: Site, size: Size, dim: int) -> str:
    return at.unsqueezed(at.node("arange", sizes=text((size,))), dim)


def _mask(at: Site, seen: str) -> str:
    """Return the mask in the form and with the dims that the call has."""
    made = at.made
    if made.dtype != "bool":
        square = at.meta(seen).shape
        seen = at.node("masked_fill", at.full(square, 0.0, made.dtype), at.node("logical_not", seen),
                       value=at.real(9, "fill", float("-inf")))  # fmt: skip
    seen = at.unsqueezed(seen, *range(len(made.shape) - 2))
    return at.expanded(seen, made.shape)


def _constant(at: Site) -> str:
    values = _attribute(at.argument(9, "values"))
    return at.node("constant", values=values, sizes=text(at.made.shape), dtype=at.made.dtype)


FUSED: Mapping[str, Row] = MappingProxyType({
    **{f"fused.{op}": _same(op) for op in SAME},
    "fused.causal_mask": _causal_mask, "fused.window_mask": _window_mask, "fused.constant": _constant,
})  # fmt: skip
"""Calls that stand for several."""
