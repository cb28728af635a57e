"""softmax(q·kᵀ·scale)·v → attention of grouped heads, in one operator where one is, else in its steps.

Both of torch's call and of what code writes out:

```text
matmul(dropout(softmax(cap·tanh(q·kᵀ·scale / cap) + mask)), v)     each of scale, cap, mask and dropout may be missing
matmul(softmax(cat(…, sinks))[…, :−1], v)                          a learnt score a head that takes weight, no value
```

Keys and values that are repeated for the query heads of their group are read as they are before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isclose

from ....core.symbol import Size
from ....core.tensor import TensorMeta
from ..program import Argument, Call, Program, Ref
from .calls import Calls, base, dims
from .masks import NOTHING, Hidden, additive, hidden
from .match import Found, Tree, call, covered, either, last_dim, listed, mul, number, part, value
from .rewrite import Pattern, Replacement, beside, fused


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """What an attention computes.

    Parameters
    ----------
    scale
        What the products of queries and keys are multiplied with.
    seen
        What true means in a mask of truth values.
    dropout
        Share of the weights that are dropped.
    cap
        Largest score; 0 for none.
    sinks
        A further score a head; None for none.
    """

    q: Argument
    k: Argument
    v: Argument
    scale: float
    mask: Hidden = NOTHING
    seen: bool = True
    dropout: float = 0.0
    cap: float = 0.0
    sinks: Argument = None
    inner: tuple[str, ...] = ()


def _of_torch(calls: Calls, root: Call) -> Attention | None:
    """Read torch's own call."""
    names = ("q", "k", "v", "attn_mask", "dropout_p", "is_causal")
    given = dict(zip(names, root.arguments, strict=False)) | dict(root.keywords)
    q, k, v = given["q"], given["k"], given["v"]
    if len(calls.shape(q)) != 4:
        return None
    width = calls.shape(q)[-1]
    scale = given.get("scale")
    if scale is None and isinstance(width, int):
        scale = width**-0.5
    dropout = given.get("dropout_p") or 0.0
    if not isinstance(scale, int | float) or not isinstance(dropout, int | float):
        return None
    mask = NOTHING if given.get("attn_mask") is None else hidden(calls, given["attn_mask"], seen=True)
    if given.get("is_causal"):
        if calls.shape(q)[2] != calls.shape(k)[2] or mask != NOTHING:
            return None
        mask = Hidden(causal=True)
    return Attention(q=q, k=k, v=v, scale=float(scale), mask=mask, dropout=float(dropout))


def _turned(x: Tree) -> Tree:
    """Match the transpose of the last two dims."""

    def fit(calls: Calls, argument: Argument, found: Found) -> Iterator[Found]:
        made = calls.maker(calls.uncast(argument))
        if made is None or len(made.results) != 1:
            return
        rank = len(made.results[0].shape)
        kind = base(made.target)
        swapped = (
            kind in ("transpose", "swapaxes") and {*dims(made.arguments[1:3], rank)} == {rank - 2, rank - 1}
        ) or (kind == "permute" and dims(made.arguments[1], rank) == (*range(rank - 2), rank - 1, rank - 2))
        if swapped or kind in ("mT", "adjoint"):
            yield from x(calls, made.arguments[0], Found(found.values, (*found.inner, made.name)))

    return fit


def _softmax(x: Tree) -> Tree:
    """Softmax over the last dim, in whatever element type."""
    return either(
        call("softmax", x, last_dim, allow=("dtype",)), call("softmax", x, last_dim, _anything),
        call("_softmax", x, last_dim, _anything),
    )  # fmt: skip


def _anything(_: Calls, __: Argument, found: Found) -> Iterator[Found]:
    yield found


_PRODUCT = call("matmul", value("q"), _turned(value("k")))
_SCALED = either(mul(_PRODUCT, number("scale")), call("div", _PRODUCT, number("divisor")), _PRODUCT)
_CAPPED = either(mul(call("tanh", call("div", _SCALED, number("cap"))), number("cap")), _SCALED)
_MASKED = either(
    call("add", _CAPPED, value("mask"), commutes=True), call("masked_fill", _CAPPED, value("hiding"), number("fill")),
    call("where", value("seeing"), _CAPPED, number("fill")), call("where", value("seeing"), _CAPPED, value("filled")),
    _CAPPED,
)  # fmt: skip
_WEIGHTS = _softmax(_MASKED)
_DROPPED = either(call("dropout", _WEIGHTS, number("dropout"), True), _WEIGHTS)
_WRITTEN = call("matmul", _DROPPED, value("v"))


def _less_top(x: Tree) -> Tree:
    """Match the scores less the largest of the row, which softmax does not see."""
    plain = call("sub", x, part("top", _first_result, "amax"))
    return either(plain, x)


def _first_result(calls: Calls, argument: Argument) -> tuple[Argument, Argument] | None:
    """Return what the first result of a maximum over the last dim is of."""
    made = calls.maker(argument)
    if made is None or base(made.target) not in ("max", "amax") or len(made.arguments) != 3:
        return None
    return (made.arguments[0], "amax") if made.arguments[1] in (-1, (-1,)) and made.arguments[2] is True else None


_JOINED = call("cat", listed(_MASKED, value("sinks")), last_dim, bind="top")


def _of_code(calls: Calls, root: Call) -> Attention | None:
    """Read what code writes out."""
    for found in _WRITTEN(calls, Ref(root.name), Found()):
        read = _read(calls, found)
        if read is not None and covered(calls, root, tuple(n for n in read.inner if n != root.name)):
            return read
    return None


def _with_sinks(calls: Calls, root: Call) -> Attention | None:
    """Read what code writes out with sinks: a softmax over one more score, which is cut off after it."""
    weights = calls.uncast(root.arguments[0])
    dropped = calls.maker(weights)
    inner: tuple[str, ...] = ()
    share = 0.0
    if dropped is not None and base(dropped.target) == "dropout":
        if not isinstance(dropped.arguments[1], float) or dropped.arguments[2] is not True:
            return None
        share, inner = dropped.arguments[1], (dropped.name,)
        weights = calls.uncast(dropped.arguments[0])
    cut = calls.maker(weights)
    if cut is None or base(cut.target) != "slice":
        return None
    x, *bounds = cut.arguments
    if dims(bounds[0], 4) != (3,) or bounds[1:] not in ([0, -1], [None, -1]):
        return None
    for found in _softmax(_less_top(_JOINED))(calls, x, Found()):
        read = _read(calls, Found(found.values, (*found.inner, cut.name, *inner)))
        sinks = found["sinks"]
        source = calls.plain(sinks)
        heads = calls.shape(Ref(root.name))[1]
        if read is None or calls.shape(source) not in ((heads,), (1, heads, 1, 1)):
            continue
        if covered(calls, root, read.inner):
            return replace(read, sinks=sinks, dropout=share, v=root.arguments[1])
    return None


def _read(calls: Calls, found: Found) -> Attention | None:
    """Return the attention that was found; None if its parts do not fit together."""
    values = found.values
    q, k = values["q"], values["k"]
    if len(calls.shape(q)) != 4:
        return None
    scale = (
        found.number("scale") if "scale" in values else 1.0 / found.number("divisor") if "divisor" in values else 1.0
    )
    mask, seen = NOTHING, True
    if "mask" in values:
        if calls.meta(values["mask"]).dtype == "bool":
            return None
        mask = hidden(calls, values["mask"], seen=True)
    elif "hiding" in values or "seeing" in values:
        seen = "seeing" in values
        if not _hides(calls, values.get("fill", values.get("filled"))):
            return None
        mask = hidden(calls, values["seeing" if seen else "hiding"], seen=seen)
    dropout = found.number("dropout") if "dropout" in values else 0.0
    cap = found.number("cap") if "cap" in values else 0.0
    return Attention(q=q, k=k, v=values.get("v"), scale=scale, mask=mask, seen=seen, dropout=dropout, cap=cap,
                     inner=found.inner)  # fmt: skip


def _hides(calls: Calls, fill: Argument) -> bool:
    """Whether a number in the place of a score leaves its key without weight."""
    if isinstance(fill, Ref):
        made = calls.maker(calls.plain(fill))
        fill = made.arguments[1] if made is not None and base(made.target) == "full" else 0.0
    return isinstance(fill, int | float) and fill <= -1e9


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
        found = _of_torch(calls, root)
    else:
        found = _of_code(calls, root) or _with_sinks(calls, root)
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


def grouped(program: Program) -> Program:
    """Return the program with the heads of queries split by the groups of the keys that they attend to."""
    calls = Calls(program)
    split: dict[str, tuple[int, int]] = {}
    for made in program.calls:
        if made.target in _READERS:
            heads, groups = (calls.shape(made.arguments[i])[1] for i in (0, 1))
            if isinstance(heads, int) and isinstance(groups, int) and heads != groups:
                split |= dict.fromkeys(_above(calls, made.arguments[0]), (groups, heads // groups))
        if made.target in (*_ATTENTIONS, "fused.attend"):
            heads, groups = (
                made.results[0].shape[1],
                calls.shape(made.arguments[2 if made.target in _ATTENTIONS else 1])[1],
            )
            below = calls.only_reader(made.name)
            if isinstance(heads, int) and isinstance(groups, int) and below is not None:
                split |= {below.name: (groups, heads // groups)} if below.target == "fused.merge_heads" else {}
    return replace(program, calls=tuple(
        replace(c, keywords=(("groups", split[c.name][0]), ("per_group", split[c.name][1]))) if c.name in split else c
        for c in program.calls
    ))  # fmt: skip


_ATTENTIONS = ("fused.attention", "fused.window_attention", "fused.full_attention", "fused.sink_attention")
_READERS = (*_ATTENTIONS, "fused.attention_scores")
_THROUGH = frozenset({"fused.rotary", "fused.rms_norm", "aten.rms_norm.default", "aten.layer_norm.default",
                      "aten.mul.Tensor", "aten.div.Tensor", "aten.to.dtype", "aten.cat.default",
                      "aten.split_with_sizes.default"})  # fmt: skip


def _above(calls: Calls, x: Argument) -> Iterator[str]:
    """Yield the splits into heads that a query is made of, a head at a time all the way."""
    made = calls.maker(x)
    if made is None:
        return
    if made.target == "fused.split_heads":
        yield made.name
    elif made.target in _THROUGH:
        first = made.arguments[0]
        for source in first if isinstance(first, tuple) else (first,):
            yield from _above(calls, source)
