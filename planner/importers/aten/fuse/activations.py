"""Activations that code writes out, and gates → `aten.gelu`, `aten.silu`, `fused.swiglu`, `fused.geglu`."""

from __future__ import annotations

from dataclasses import replace
from math import pi, sqrt

from ....core.tensor import TensorMeta
from ..program import Argument, Call
from .calls import Calls
from .match import Found, Tree, add, call, either, first, mul, value
from .rewrite import Pattern, Replacement, fused

_X = value("x")


def _cube(x: Tree) -> Tree:
    return either(call("pow", x, 3), mul(call("mul", x, x), x))


_SQUARE = either(mul(either(call("pow", _X, 2), call("mul", _X, _X)), 0.044715), call("mul", mul(_X, 0.044715), _X))
_INNER = either(
    mul(add(_X, mul(_cube(_X), 0.044715)), sqrt(2 / pi)),
    # √(2/π) · x · (1 + 0.044715 · x²)
    mul(mul(_X, sqrt(2 / pi)), add(_SQUARE, 1.0)),
    mul(_X, mul(add(_SQUARE, 1.0), sqrt(2 / pi))),
)
_ERF = call("erf", either(call("div", _X, sqrt(2.0)), mul(_X, 1 / sqrt(2.0))))


def _gated(inner: Tree) -> Tree:
    """Match x · (1 + inner) / 2, in any order of the factors."""
    gate = add(inner, 1.0)
    halves = (mul(_X, 0.5), call("div", _X, 2))
    return either(
        *(mul(half, gate) for half in halves), mul(mul(_X, gate), 0.5), mul(_X, mul(gate, 0.5)),
        call("div", mul(_X, gate), 2), mul(_X, call("div", gate, 2)),
    )  # fmt: skip


_FORMS: tuple[tuple[Tree, str, tuple[tuple[str, Argument], ...]], ...] = (
    (_gated(call("tanh", _INNER)), "aten.gelu.default", (("approximate", "tanh"),)),
    (_gated(_ERF), "aten.gelu.default", ()),
    (mul(_X, call("sigmoid", _X)), "aten.silu.default", ()),
    (call("div", _X, add(call("exp", call("neg", _X)), 1.0)), "aten.silu.default", ()),
)


def _activation(calls: Calls, root: Call) -> Replacement | None:
    for tree, target, keywords in _FORMS:
        found = first(tree, calls, root)
        if found is not None:
            x = found["x"]
            meta = TensorMeta(root.results[0].shape, calls.meta(x).dtype)
            made = replace(root, target=target, arguments=(x,), keywords=keywords, results=(meta,))
            return Replacement(calls=(made,), inner=found.inner)
    return None


_SILU = mul(call("silu", value("gate"), bind="act"), value("up"))
_GELU = mul(call("gelu", value("gate"), bind="act", allow=("approximate",)), value("up"))


def _gate(calls: Calls, root: Call) -> Replacement | None:
    for name, tree in (("swiglu", _SILU), ("geglu", _GELU)):
        found = first(tree, calls, root, lambda f: _alike(calls, f))
        if found is not None:
            act = calls.maker(found["act"])
            assert act is not None
            attributes = () if name == "swiglu" else (("approximate", act.keyword("approximate") or "none"),)
            gate, up = found["gate"], found["up"]
            meta = TensorMeta(root.results[0].shape, calls.meta(gate).dtype)
            return Replacement(calls=(fused(root, name, (gate, up), attributes, meta=meta),), inner=found.inner)
    return None


def _alike(calls: Calls, found: Found) -> bool:
    """Whether the gate and what passes it have one shape."""
    return calls.shape(found["gate"]) == calls.shape(found["up"])


ACTIVATION = Pattern(name="activation", roots=frozenset({"mul", "div"}), rewrite=_activation)
GATE = Pattern(name="gate", roots=frozenset({"mul"}), rewrite=_gate)
