"""softmax(q·kᵀ·scale)·v → attention of grouped heads, in one operator where one is, else in its steps.

Both of torch's call and of what code writes out:

```text
matmul(dropout(softmax(cap·tanh(q·kᵀ·scale / cap) + mask)), v)     each of scale, cap, mask and dropout may be missing
matmul(softmax(cat(…, sinks))[…, :−1], v)                          a learnt score a head that takes weight, no value
```

Keys and values that are repeated for the query heads of their group are read as they are before.
"""

from __future__ import annotations

from dataclasses import replace
from math import isclose

from ....core.symbol import Size
from ....core.tensor import TensorMeta
from ..program import Argument, Call, Ref
from .attention_forms import Attention, of_code, of_torch, with_sinks
from .calls import Calls, base, dims
from .masks import additive
from .rewrite import Pattern, Replacement, beside, fused


def _grouped(calls: Calls, x: Argument) -> Argument:
    """Return keys or values as they are before each is repeated for the heads of its group."""
    bare = calls.uncast(x)
    made = calls.maker(bare)
    if made is None:
        return x
    shape = calls.shape(bare)
    if base(made.target) == "repeat_interleave" and isinstance(made.arguments[1], int):
        return made.arguments[0] if dims(made.arguments[2], 4) == (1,) else x
    if base(made.target) not in ("reshape", "view", "flatten", "_unsafe_view"):
        return x
    spread = calls.maker(calls.uncast(made.arguments[0]))
    if spread is None or base(spread.target) not in ("expand", "repeat") or len(spread.results[0].shape) != 5:
        return x
    wide, before = spread.results[0].shape, calls.shape(spread.arguments[0])
    if len(before) != 5 or before[2] != 1 or before != (*wide[:2], 1, *wide[3:]) or shape[2:] != wide[3:]:
        return x
    source = calls.plain(spread.arguments[0])
    return source if calls.shape(source) == (*before[:2], *before[3:]) else x


def _rewrite(calls: Calls, root: Call) -> Replacement | None:
    if base(root.target) == "scaled_dot_product_attention":
        found = of_torch(calls, root)
    else:
        found = of_code(calls, root) or with_sinks(calls, root)
    if found is None:
        return None
    found = replace(found, k=_grouped(calls, found.k), v=_grouped(calls, found.v))
    shapes = [calls.shape(x) for x in (found.q, found.k, found.v)]
    if any(len(shape) != 4 for shape in shapes):
        return None
    heads, groups = shapes[0][1], shapes[1][1]
    if not isinstance(heads, int) or not isinstance(groups, int) or heads % groups or shapes[2][1] != groups:
        return None
    if shapes[0][0] != shapes[1][0] or shapes[1][:3] != shapes[2][:3]:
        return None
    made = _bias(calls, root, found, (*shapes[0][:3], shapes[1][2]))
    if made is None:
        return None
    bias, before = made
    sinks = calls.plain(found.sinks) if found.sinks is not None else None
    alone = sinks is None or (found.mask.causal and len(calls.shape(sinks)) == 1)
    steps = found.dropout or not alone or (bias is not None and found.mask.causal)
    calls_made = _steps(calls, root, found, bias) if steps else [_one(calls, root, found, bias)]
    return Replacement(calls=(*before, *calls_made), inner=tuple(n for n in found.inner if n != root.name))


def _bias(calls: Calls, root: Call, found: Attention, scores: tuple[Size, ...]) -> tuple[Argument, list[Call]] | None:
    """Return what is added to the scores, None for nothing; None instead of both where it does not fit them."""
    if found.mask.bias is None:
        return None, []
    made = additive(calls, root, found.mask.bias, seen=found.seen, dtype=calls.meta(found.q).dtype)
    if made is None:
        return None
    shape = made[1][-1].results[0].shape if made[1] else calls.shape(made[0])
    return made if all(size in (1, whole) for size, whole in zip(shape, scores, strict=True)) else None


def _scale(calls: Calls, found: Attention) -> tuple[tuple[str, Argument], ...]:
    """Return the scale as an attribute, unless it is the usual one."""
    width = calls.shape(found.q)[-1]
    usual = isinstance(width, int) and isclose(found.scale, width**-0.5, rel_tol=1e-9)
    return () if usual else (("scale", found.scale),)


def _meta(calls: Calls, found: Attention) -> TensorMeta:
    q = calls.meta(found.q)
    return TensorMeta((*q.shape[:-1], calls.shape(found.v)[-1]), q.dtype)


def _one(calls: Calls, root: Call, found: Attention, bias: Argument) -> Call:
    """Return the one call that an attention is."""
    attributes = (*_scale(calls, found), *found.mask.bounds, *((("softcap", found.cap),) if found.cap else ()))
    operands: tuple[Argument, ...] = (found.q, found.k, found.v)
    if not found.mask.causal:
        name, operands = "full_attention", operands if bias is None else (*operands, bias)
    elif found.sinks is not None:
        name, operands = "sink_attention", (*operands, calls.plain(found.sinks))
    else:
        name = "window_attention" if found.mask.bounds else "attention"
    return fused(root, name, operands, attributes, meta=_meta(calls, found))


def _steps(calls: Calls, root: Call, found: Attention, bias: Argument) -> list[Call]:
    """Return the calls that an attention is step by step."""
    q = calls.meta(found.q)
    scores = TensorMeta((*q.shape[:-1], calls.shape(found.k)[2]), q.dtype)
    made = [beside(root, "scores", "fused.attention_scores", (found.q, found.k), scores, keywords=_scale(calls, found))]

    def then(role: str, target: str, *rest: Argument, meta: TensorMeta = scores,
             keywords: tuple[tuple[str, Argument], ...] = ()) -> None:  # fmt: skip
        made.append(beside(root, role, target, (Ref(made[-1].name), *rest), meta, keywords=keywords))

    if found.cap:
        then("uncapped", "aten.mul.Tensor", 1.0 / found.cap)
        then("tanh", "aten.tanh.default")
        then("capped", "aten.mul.Tensor", found.cap)
    if bias is not None:
        then("biased", "aten.add.Tensor", bias)
    if found.mask.causal:
        then("hidden", "fused.hide_future", keywords=found.mask.bounds)
    if found.sinks is not None:
        keys = scores.shape[-1]
        wide = TensorMeta((*scores.shape[:-1], keys + 1), scores.dtype)
        made.append(beside(root, "sunk", "aten.cat.default", ((Ref(made[-1].name), found.sinks), -1), wide))
        then("softmax", "aten.softmax.int", -1, meta=wide)
        then("shares", "aten.slice.Tensor", 3, 0, keys)
    else:
        then("softmax", "aten.softmax.int", -1)
    if found.dropout:
        then("dropped", "aten.dropout.default", found.dropout, True)
    made.append(fused(root, "attend", (Ref(made[-1].name), found.v), meta=_meta(calls, found)))
    return made


ATTENTION = Pattern(name="attention", roots=frozenset({"scaled_dot_product_attention", "matmul"}), rewrite=_rewrite)
