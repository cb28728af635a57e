"""How code writes attention: torch's own call, or its steps written out, with sinks or without; see `attention`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..program import Argument, Call, Ref
from .calls import Calls, base, dims
from .masks import NOTHING, Hidden, hidden
from .match import Found, Tree, call, covered, either, last_dim, listed, mul, number, part, value


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


def of_torch(calls: Calls, root: Call) -> Attention | None:
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


def of_code(calls: Calls, root: Call) -> Attention | None:
    """Read what code writes out."""
    for found in _WRITTEN(calls, Ref(root.name), Found()):
        read = _read(calls, found)
        if read is not None and covered(calls, root, tuple(n for n in read.inner if n != root.name)):
            return read
    return None


def with_sinks(calls: Calls, root: Call) -> Attention | None:
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
