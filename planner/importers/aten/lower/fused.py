"""What `fold_constants` and `fuse` made of several calls: mostly the operator of the same name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ....core.graph import Attribute
from ....ops.constant import BOUNDS
from ..program import Argument
from .site import Row, Site, UnloweredError, text

SAME = (
    "attention", "attention_scores", "attend", "collect", "cross_entropy", "dispatch", "expert_linear",
    "full_attention", "geglu", "hide_future", "masked_attention", "merge_heads", "place", "rms_norm", "rotary",
    "rotary_table", "route", "sink_attention", "split_heads", "swiglu", "window_attention",
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


def _seen_mask(at: Site) -> str:
    """Lower a mask by what a query sees: keys up to its place, of them a window or a chunk, or those around it."""
    bounds = {name: at.integer(9, name) for name in BOUNDS if at.argument(9, name) is not None}
    square = at.made.shape[-2:]
    if at.made.dtype == "bool":
        made = at.node("causal_mask", sizes=text(square), **bounds)
    else:
        fill = at.real(9, "fill", float("-inf"))
        made = at.node("causal_mask", sizes=text(square), dtype=at.made.dtype, fill=fill, **bounds)
    return at.expanded(at.unsqueezed(made, *range(len(at.made.shape) - 2)), at.made.shape)


def _constant(at: Site) -> str:
    values = _attribute(at.argument(9, "values"))
    return at.node("constant", values=values, sizes=text(at.made.shape), dtype=at.made.dtype)


FUSED: Mapping[str, Row] = MappingProxyType({
    **{f"fused.{op}": _same(op) for op in SAME},
    "fused.causal_mask": _seen_mask, "fused.window_mask": _seen_mask, "fused.constant": _constant,
})  # fmt: skip
"""Calls that stand for several."""
