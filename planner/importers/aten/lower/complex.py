"""Complex tensors, held as two real ones: calls on elements and views become two calls, a product becomes four.

Rotary embeddings are written so: pairs of features are complex numbers that are turned by `polar(1, angle)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ....core.tensor import TensorMeta
from ..program import Call, reads
from .site import Held, Pair, Row, Site, UnloweredError

_REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
APART = frozenset(f"aten.{name}" for name in (
    "view.default", "reshape.default", "flatten.using_ints", "unflatten.int", "unsqueeze.default", "squeeze.dim",
    "squeeze.default", "transpose.int", "permute.default", "expand.default", "expand_as.default", "select.int",
    "slice.Tensor", "index.Tensor", "index_select.default", "cat.default", "stack.default", "clone.default",
    "contiguous.default", "to.device", "alias.default", "neg.default", "repeat.default", "split.Tensor",
    "chunk.default", "add.Tensor", "sub.Tensor",
))  # fmt: skip
"""Calls that do to each part what they do to the whole."""


def is_complex(call: Call, held: Mapping[str, Held]) -> bool:
    """Return whether a call reads a complex tensor, and does to its parts what it does to the whole."""
    return call.target in APART and any(isinstance(held.get(name), Pair) for name in reads(call))


def apart(site: Site, row: Row) -> tuple[Pair, ...]:
    """Lower a call twice, once for each part of its complex operands; a real operand has no imaginary part."""
    call = site.call
    if call.target in {"aten.add.Tensor", "aten.sub.Tensor"} and not all(
        isinstance(site.held.get(name), Pair) for name in reads(call)
    ):
        raise UnloweredError("it adds a real tensor to a complex one")
    results = tuple(TensorMeta(meta.shape, _REAL.get(meta.dtype, meta.dtype)) for meta in call.results)
    made: list[Sequence[Held]] = []
    for part in ("real", "imaginary"):
        held = {k: getattr(v, part) if isinstance(v, Pair) else v for k, v in site.held.items()}
        own = row(replace(site, call=replace(call, results=results), held=held))
        made.append([own] if not isinstance(own, Sequence) or isinstance(own, str) else own)
    pairs = []
    for real, imaginary in zip(*made, strict=True):
        assert isinstance(real, str)
        assert isinstance(imaginary, str)
        pairs.append(Pair(real=real, imaginary=imaginary))
    return tuple(pairs)


def _pair(at: Site, position: int) -> Pair | None:
    argument = at.call.arguments[position]
    held = at.held.get(getattr(argument, "name", ""))
    return held if isinstance(held, Pair) else None


def multiplied(at: Site) -> Pair:
    """Return (a + bi)·(c + di), or a complex number times a real one."""
    x, y = _pair(at, 0), _pair(at, 1)
    if x is None or y is None:
        z, other = (x, at.x(1)) if x else (y, at.x(0))
        assert z is not None
        return Pair(real=at.node("mul", z.real, other), imaginary=at.node("mul", z.imaginary, other))
    real = at.node("sub", at.node("mul", x.real, y.real), at.node("mul", x.imaginary, y.imaginary))
    return Pair(real=real, imaginary=at.node("add", at.node("mul", x.real, y.imaginary),
                                             at.node("mul", x.imaginary, y.real)))  # fmt: skip


def _polar(at: Site) -> Pair:
    size, angle = at.x(0, "abs"), at.x(1, "angle")
    return Pair(real=at.node("mul", size, at.node("cos", angle)), imaginary=at.node("mul", size, at.node("sin", angle)))


def _as_complex(at: Site) -> Pair:
    x = at.x(0, "self")
    real, imaginary = (at.node("select", x, dim=at.rank(x) - 1, index=index) for index in (0, 1))
    return Pair(real=real, imaginary=imaginary)


def _complex(at: Site) -> Pair:
    return Pair(real=at.x(0, "real"), imaginary=at.x(1, "imag"))


def _whole(at: Site) -> Pair:
    pair = _pair(at, 0)
    if pair is None:
        raise UnloweredError("its operand is not complex")
    return pair


def _as_real(at: Site) -> str:
    pair = _whole(at)
    return at.node("stack", pair.real, pair.imaginary, dim=len(at.made.shape) - 1)


def _conjugate(at: Site) -> Pair:
    pair = _whole(at)
    return Pair(real=pair.real, imaginary=at.node("neg", pair.imaginary))


COMPLEX: Mapping[str, Row] = {
    "aten.polar.default": _polar,
    "aten.complex.default": _complex,
    "aten.view_as_complex.default": _as_complex,
    "aten.view_as_real.default": _as_real,
    "aten.real.default": lambda at: _whole(at).real,
    "aten.imag.default": lambda at: _whole(at).imaginary,
    **dict.fromkeys(("aten.conj.default", "aten.conj_physical.default", "aten._conj.default"), _conjugate),
}  # fmt: skip
"""Calls that make complex tensors, and take them apart."""
