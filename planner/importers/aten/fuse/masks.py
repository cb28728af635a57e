"""What hides keys from queries: known kinds of masks, and others as a bias that is added to the scores."""

from __future__ import annotations

from dataclasses import dataclass

from ....core.tensor import TensorMeta
from ..program import Argument, Call, Ref
from .calls import FLOATS, Calls, base
from .rewrite import beside


@dataclass(frozen=True, slots=True, kw_only=True)
class Hidden:
    """Which keys a query does not see.

    Parameters
    ----------
    causal
        Whether the query's place says which keys are hidden: those after it, if there are no bounds.
    bounds
        One of `window`, `chunk` and `reach`, as the operator `hide_future` has them; nothing for none.
    bias
        What is added to the scores in place of these; None for nothing.
    """

    causal: bool = False
    bounds: tuple[tuple[str, Argument], ...] = ()
    bias: Argument = None


NOTHING = Hidden()


def hidden(calls: Calls, mask: Argument, *, seen: bool) -> Hidden:
    """Return what a mask hides.

    Parameters
    ----------
    mask
        Truth values, or numbers that are added.
    seen
        What true means where they are truth values: the key is seen, or it is hidden.
    """
    bare = calls.plain(mask)
    made = calls.maker(bare)
    truth = calls.meta(bare).dtype == "bool"
    if truth and made is not None and base(made.target) in ("bitwise_not", "logical_not"):
        turned = hidden(calls, made.arguments[0], seen=not seen)
        return turned if turned.bias is None else Hidden(bias=mask)
    if made is not None and made.target in ("fused.causal_mask", "fused.window_mask") and (seen or not truth):
        bounds = tuple((key, value) for key, value in made.keywords if key != "fill")
        if calls.shape(bare)[-2:] == calls.shape(mask)[-2:]:
            return Hidden(causal=True, bounds=bounds)
    if made is not None and base(made.target) == "full" and made.arguments[1] == (seen if truth else 0):
        return NOTHING
    return Hidden(bias=mask)


def additive(calls: Calls, root: Call, bias: Argument, *, seen: bool, dtype: str) -> tuple[Argument, list[Call]] | None:
    """Return the bias as numbers of four dims, and the calls that make it so; None if it does not fit scores."""
    made: list[Call] = []
    meta = calls.meta(bias)
    if len(meta.shape) > 4:
        return None
    if meta.dtype == "bool":
        values = (0.0, float("-inf")) if seen else (float("-inf"), 0.0)
        meta = TensorMeta(meta.shape, dtype)
        made.append(beside(root, "bias", "aten.where.Scalar", (bias, *values), meta))
        bias = Ref(made[-1].name)
    elif meta.dtype not in FLOATS:
        return None
    if len(meta.shape) < 4:
        meta = TensorMeta((*(1,) * (4 - len(meta.shape)), *meta.shape), meta.dtype)
        made.append(beside(root, "bias_dims", "aten.view.default", (bias, meta.shape), meta))
        bias = Ref(made[-1].name)
    return bias, made
