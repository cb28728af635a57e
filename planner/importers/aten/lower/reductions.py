"""Sums, means and extrema over dims, running sums, and the order of elements."""

from __future__ import annotations

from collections.abc import Mapping

from .elements import related
from .parts import cut
from .site import INTEGERS, Row, Site, UnloweredError


def _over(at: Site, x: str, position: int, name: str = "dim") -> tuple[int, ...]:
    """Return the dims that a call reduces; all of them where it names none."""
    rank = at.rank(x)
    dims = at.integers(position, name) if at.given(position, name) else ()
    return tuple(d % rank for d in dims) or tuple(range(rank))


def reduced(at: Site, op: str, x: str, dims: tuple[int, ...], keep: bool) -> str:
    """Return a reduction over dims; one of no dims gives x back."""
    return at.node(op, x, dims=dims, **({"keepdim": True} if keep else {})) if dims else x


def _reduction(op: str) -> Row:
    """Return the row of a reduction whose arguments are x, dims and whether these stay."""

    def row(at: Site) -> str:
        x = at.cast(at.x(0, "self"), at.made.dtype)
        return reduced(at, op, x, _over(at, x, 1), at.flag(2, "keepdim", False))

    return row


def _extreme(op: str, arg: str) -> Row:
    """Return the row of an extremum along a dim, with where it is."""

    def row(at: Site) -> tuple[str, str]:
        x = at.x(0, "self")
        dim, keep = at.dim(1, "dim", at.rank(x)), at.flag(2, "keepdim", False)
        top = reduced(at, op, x, (dim,), keep) if 0 in at.used else x
        if 1 not in at.used:
            return top, x
        place = at.node(arg, x, dim=dim)
        return top, at.unsqueezed(place, dim) if keep else place

    return row


def _place(op: str) -> Row:
    def row(at: Site) -> str:
        x = at.x(0, "self")
        if not at.given(1, "dim"):
            raise UnloweredError("it searches all dims as one")
        dim = at.dim(1, "dim", at.rank(x))
        place = at.node(op, x, dim=dim)
        return at.unsqueezed(place, dim) if at.flag(2, "keepdim", False) else place

    return row


def _quantified(op: str) -> Row:
    """Return the row of `all` and `any`: the least and the largest truth value."""

    def row(at: Site) -> str:
        x = at.cast(at.cast(at.x(0, "self"), "bool"), "int32")
        return at.cast(reduced(at, op, x, _over(at, x, 1), at.flag(2, "keepdim", False)), "bool")

    return row


def _product(at: Site) -> str:
    x = at.cast(at.x(0, "self"), at.made.dtype)
    if not at.given(1, "dim"):
        for _ in range(at.rank(x)):
            x = at.node("prod", x, dim=0)
        return x
    dim = at.dim(1, "dim", at.rank(x))
    made = at.node("prod", x, dim=dim)
    return at.unsqueezed(made, dim) if at.flag(2, "keepdim", False) else made


def _spread(at: Site) -> tuple[str, tuple[int, ...], bool, int]:
    x = at.x(0, "self")
    if len(at.call.arguments) > 1 and isinstance(at.call.arguments[1], bool):
        unbiased, dims, keep = at.call.arguments[1], tuple(range(at.rank(x))), False
        return x, dims, keep, int(unbiased)
    dims, keep = _over(at, x, 1), at.flag(3, "keepdim", False)
    if at.call.target.endswith((".dim", ".default")):
        return x, dims, keep, int(at.flag(2, "unbiased", True))
    correction = at.argument(2, "correction")
    return x, dims, keep, 1 if correction is None else at.integer(2, "correction")


def _variance(root: bool) -> Row:
    def row(at: Site) -> str:
        x, dims, keep, correction = _spread(at)
        made = at.node("var", x, dims=dims, correction=correction, **({"keepdim": True} if keep else {}))
        return at.node("sqrt", made) if root else made

    return row


def _log_sum_exp(at: Site) -> str:
    """Take the largest element out of the exponent; its gradients cancel."""
    x = at.x(0, "self")
    dims, keep = _over(at, x, 1), at.flag(2, "keepdim", False)
    top = at.node("amax", x, dims=dims, keepdim=True)
    total = at.node("log", at.node("sum", at.node("exp", at.node("sub", x, top)), dims=dims, keepdim=True))
    made = at.node("add", total, top)
    return made if keep else at.squeezed(made, *dims)


def _norm(at: Site) -> str:
    x = at.x(0, "self")
    order = at.real(1, "ord" if "linalg" in at.call.target else "p", 2.0)
    keep = at.flag(3, "keepdim", False)
    x = at.cast(x, at.made.dtype)
    dims = _over(at, x, 2)
    if order == 2:
        return at.node("sqrt", reduced(at, "sum", at.node("pow", x, exponent=2), dims, keep))
    if order == 1:
        return reduced(at, "sum", at.node("abs", x), dims, keep)
    if order == float("inf"):
        return reduced(at, "amax", at.node("abs", x), dims, keep)
    powers = reduced(at, "sum", at.node("pow", at.node("abs", x), exponent=order), dims, keep)
    return at.node("pow", powers, exponent=1 / order)


def _running(op: str) -> Row:
    def row(at: Site) -> str:
        x = at.cast(at.x(0, "self"), at.made.dtype)
        return at.node(op, x, dim=at.dim(1, "dim", at.rank(x)))

    return row


def _diff(at: Site) -> str:
    """Return the differences of neighbours, with what is put before or behind."""
    if at.integer(1, "n", 1) != 1:
        raise UnloweredError("it takes differences of differences")
    x = at.x(0, "self")
    dim = at.dim(2, "dim", at.rank(x))
    parts = [at.cast(at.x(place, name), at.meta(x).dtype) for place, name in ((3, "prepend"), (4, "append"))
             if at.given(place, name)]  # fmt: skip
    if parts:
        order = [parts[0], x, *parts[1:]] if at.given(3, "prepend") else [x, *parts]
        x = at.node("concat", *order, dim=dim)
    size = at.made.shape[dim]
    later, earlier = cut(at, x, dim, 1, size), cut(at, x, dim, 0, size)
    if at.meta(x).dtype == "bool":
        return at.node("compare", later, earlier, relation="ne")
    return at.node("sub", later, earlier)


def _topk(at: Site) -> tuple[str, ...]:
    x = at.x(0, "self")
    return at.nodes(
        "topk", x, k=at.integer(1, "k"), dim=at.dim(2, "dim", at.rank(x)), largest=at.flag(3, "largest", True)
    )


def _sort(at: Site) -> tuple[str, ...]:
    """Sort along a dim; a stable sort has an argument before."""
    x, place = at.x(0, "self"), 2 if at.call.target.endswith("stable") else 1
    return at.nodes("sort", x, dim=at.dim(place, "dim", at.rank(x)), descending=at.flag(place + 1, "descending", False))


def _argsort(at: Site) -> str:
    return _sort(at)[1]


def _count(at: Site) -> str:
    """Return how many elements are not zero."""
    x = at.x(0, "self")
    flags = at.meta(x).dtype == "bool"
    mask = x if flags else related(at, x, "ne", 0 if at.meta(x).dtype in INTEGERS else 0.0)
    return reduced(at, "sum", at.cast(mask, "int64"), _over(at, x, 1), False)


REDUCTIONS: Mapping[str, Row] = {
    **dict.fromkeys(("aten.sum.default", "aten.sum.dim_IntList"), _reduction("sum")),
    **dict.fromkeys(("aten.mean.default", "aten.mean.dim"), _reduction("mean")),
    **dict.fromkeys(("aten.amax.default", "aten.max.default"), _reduction("amax")),
    **dict.fromkeys(("aten.amin.default", "aten.min.default"), _reduction("amin")),
    "aten.max.dim": _extreme("amax", "argmax"),
    "aten.min.dim": _extreme("amin", "argmin"),
    "aten.argmax.default": _place("argmax"),
    "aten.argmin.default": _place("argmin"),
    **dict.fromkeys(("aten.all.default", "aten.all.dim", "aten.all.dims"), _quantified("amin")),
    **dict.fromkeys(("aten.any.default", "aten.any.dim", "aten.any.dims"), _quantified("amax")),
    **dict.fromkeys(("aten.prod.default", "aten.prod.dim_int"), _product),
    **dict.fromkeys(("aten.var.correction", "aten.var.dim", "aten.var.default"), _variance(root=False)),
    **dict.fromkeys(("aten.std.correction", "aten.std.dim", "aten.std.default"), _variance(root=True)),
    "aten.logsumexp.default": _log_sum_exp,
    **dict.fromkeys((
        "aten.linalg_vector_norm.default", "aten.norm.ScalarOpt_dim", "aten.linalg_norm.default",
    ), _norm),
    "aten.cumsum.default": _running("cumsum"),
    "aten.cumprod.default": _running("cumprod"),
    "aten.logcumsumexp.default": _running("logcumsumexp"),
    "aten.diff.default": _diff,
    "aten.topk.default": _topk,
    **dict.fromkeys(("aten.sort.default", "aten.sort.stable"), _sort),
    **dict.fromkeys(("aten.argsort.default", "aten.argsort.stable"), _argsort),
    **dict.fromkeys(("aten.count_nonzero.default", "aten.count_nonzero.dim_IntList"), _count),
}  # fmt: skip
"""Calls over dims."""
