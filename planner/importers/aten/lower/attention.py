"""Attention as torch has it, where nothing more is known of its mask."""

from __future__ import annotations

from collections.abc import Mapping

from ....core.graph import Attribute
from .site import Row, Site, UnloweredError


def _attention(at: Site) -> str:
    """Lower scaled dot-product attention; a mask of numbers is added to the scores."""
    names = [at.x(place, name) for place, name in enumerate(("query", "key", "value"))]
    rank = at.rank(names[0])
    names = [_of_four(at, x) for x in names]
    scale = at.argument(6, "scale")
    given: dict[str, Attribute] = {} if scale is None else {"scale": at.real(6, "scale", 1.0)}
    if share := at.real(4, "dropout_p", 0.0):
        given |= {"dropout": share, "seed": 0}
    queries, keys = (at.meta(x).shape[2] for x in names[:2])
    if at.flag(5, "is_causal", False):
        if queries != keys:
            raise UnloweredError("it is causal, with another number of keys than of queries")
        made = at.node("attention", *names, **given)
    elif at.given(3, "attn_mask"):
        mask = at.x(3, "attn_mask")
        truth = at.meta(mask).dtype == "bool"
        made = at.node("masked_attention" if truth else "full_attention", *names, _of_four(at, mask), **given)
    else:
        made = at.node("full_attention", *names, **given)
    return at.reshaped(made, at.made.shape) if rank != 4 else made


def _of_four(at: Site, x: str) -> str:
    rank = at.rank(x)
    if rank > 4:
        raise UnloweredError(f"its operands have {rank} dims")
    # What is missing is heads first, then samples.
    return at.unsqueezed(x, *((1,) if rank == 3 else range(4 - rank)))


ATTENTION: Mapping[str, Row] = {"aten.scaled_dot_product_attention.default": _attention}
"""Calls that attend."""
