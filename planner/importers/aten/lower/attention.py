"""Attention as torch has it, where nothing more is known of its mask."""

from __future__ import annotations

from collections.abc import Mapping

from ....core.graph import Attribute
from .site import Row, Site, UnloweredError


def _attention(at: Site) -> str:
    """Lower scaled dot-product attention; a mask is added to the scores."""
    names = [at.x(place, name) for place, name in enumerate(("query", "key", "value"))]
    rank = at.rank(names[0])
    if at.real(4, "dropout_p", 0.0):
        raise UnloweredError("it drops weights")
    names = [_of_four(at, x) for x in names]
    scale = at.argument(6, "scale")
    given: dict[str, Attribute] = {} if scale is None else {"scale": at.real(6, "scale", 1.0)}
    queries, keys = (at.meta(x).shape[2] for x in names[:2])
    if at.flag(5, "is_causal", False):
        if queries != keys:
            raise UnloweredError("it is causal, with another number of keys than of queries")
        made = at.node("attention", *names, **given)
    elif at.given(3, "attn_mask"):
        made = at.node("full_attention", *names, _bias(at), **given)
    else:
        made = at.node("full_attention", *names, **given)
    return at.reshaped(made, at.made.shape) if rank != 4 else made


def _of_four(at: Site, x: str) -> str:
    rank = at.rank(x)
    if rank > 4:
        raise UnloweredError(f"its operands have {rank} dims")
    # What is missing is heads first, then samples.
    return at.unsqueezed(x, *((1,) if rank == 3 else range(4 - rank)))


def _bias(at: Site) -> str:
    """Return what is added to the scores: 0 where a mask lets a key be seen, −∞ elsewhere."""
    mask = at.x(3, "attn_mask")
    if at.meta(mask).dtype == "bool":
        zeros = at.full(at.meta(mask).shape, 0.0, at.made.dtype)
        mask = at.node("masked_fill", zeros, at.node("logical_not", mask), value=float("-inf"))
    return _of_four(at, mask)


ATTENTION: Mapping[str, Row] = {"aten.scaled_dot_product_attention.default": _attention}
"""Calls that attend."""
