"""x / √(mean(x²) + eps), written out → `fused.rms_norm(x[, weight]) eps`."""

from __future__ import annotations

from ....core.tensor import TensorMeta
from ..program import Argument, Call, Ref
from .calls import Calls
from .match import add, call, either, first, last_dim, mul, number, square, value
from .rewrite import Pattern, Replacement, beside, fused

_X = value("x")
_MEAN = add(call("mean", square(_X), last_dim, True), number("eps"))
_NORMED = either(
    mul(_X, either(call("rsqrt", _MEAN), call("pow", _MEAN, -0.5), call("reciprocal", call("sqrt", _MEAN)))),
    call("div", _X, either(call("sqrt", _MEAN), call("pow", _MEAN, 0.5))),
)
# Gemma keeps the weight less 1.
_WEIGHTED = mul(_NORMED, either(add(value("less_one"), 1.0), value("weight")))


def _rewrite(calls: Calls, root: Call) -> Replacement | None:
    found = first(_WEIGHTED, calls, root, lambda f: _is_weight(calls, f["x"], f.values.get("less_one") or f["weight"]))
    found = found or first(_NORMED, calls, root)
    if found is None:
        return None
    x, before = found["x"], []
    operands: tuple[Argument, ...] = (x,)
    if "less_one" in found.values:
        less = found["less_one"]
        before = [beside(root, "scale", "aten.add.Tensor", (less, 1.0), calls.meta(less))]
        operands = (x, Ref(before[0].name))
    elif "weight" in found.values:
        operands = (x, found["weight"])
    # The norm is computed in fp32 inside and gives what it is given.
    meta = TensorMeta(root.results[0].shape, calls.meta(x).dtype)
    norm = fused(root, "rms_norm", operands, (("eps", float(found.number("eps"))),), meta=meta)
    return Replacement(calls=(*before, norm), inner=found.inner)


def _is_weight(calls: Calls, x: Argument, weight: Argument) -> bool:
    return calls.shape(weight) == calls.shape(x)[-1:]


RMS_NORM = Pattern(name="rms_norm", roots=frozenset({"mul", "div"}), rewrite=_rewrite)
