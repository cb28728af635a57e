"""Views: the same elements under other dims, in another order, or repeated."""

from __future__ import annotations

from collections.abc import Mapping

from ....core.symbol import Polynomial, Size
from ..program import Argument
from .site import Row, Site, UnloweredError


def _reshape(at: Site) -> str:
    return at.reshaped(at.x(0, "self"), at.made.shape)


def _permute(at: Site) -> str:
    x = at.x(0, "self")
    rank = at.rank(x)
    return at.permuted(x, [d % rank for d in at.integers(1, "dims")])


def _transpose(at: Site) -> str:
    x = at.x(0, "self")
    rank = at.rank(x)
    a, b = at.dim(1, "dim0", rank), at.dim(2, "dim1", rank)
    return at.permuted(x, [{a: b, b: a}.get(d, d) for d in range(rank)]) if rank else x


def _turned(at: Site) -> str:
    """Return a matrix, or the last two dims, turned."""
    x = at.x(0, "self")
    rank = at.rank(x)
    return at.permuted(x, [*range(rank - 2), rank - 1, rank - 2]) if rank > 1 else x


def _reversed(at: Site) -> str:
    x = at.x(0, "self")
    return at.permuted(x, list(reversed(range(at.rank(x)))))


def _movedim(at: Site) -> str:
    x = at.x(0, "self")
    rank = at.rank(x)
    sources = [d % rank for d in at.integers(1, "source")]
    targets = dict(zip([d % rank for d in at.integers(2, "destination")], sources, strict=True))
    rest = iter([d for d in range(rank) if d not in sources])
    return at.permuted(x, [targets[d] if d in targets else next(rest) for d in range(rank)])


def _squeeze(at: Site) -> str:
    x = at.x(0, "self")
    shape = at.meta(x).shape
    dims = at.integers(1, "dim", tuple(range(len(shape))))
    return at.squeezed(x, *(d % len(shape) for d in dims if shape[d] == 1)) if shape else x


def _unsqueeze(at: Site) -> str:
    x = at.x(0, "self")
    return at.unsqueezed(x, at.dim(1, "dim", at.rank(x) + 1))


def _expand(at: Site) -> str:
    x = at.x(0, "self")
    return at.expanded(x, at.made.shape) if at.rank(x) else at.expanded(
        at.unsqueezed(x, *range(len(at.made.shape))), at.made.shape)  # fmt: skip


def _broadcast(at: Site) -> tuple[str, ...]:
    """Expand each of several tensors to the shape of all."""
    shape = at.made.shape
    return tuple(at.expanded(at.unsqueezed(x, *range(len(shape) - at.rank(x))), shape) for x in at.tensors(0))


def _repeat(at: Site) -> str:
    """Repeat the whole; a dim of size 1 is expanded, so that it may be repeated a symbol of times."""
    x = at.x(0, "self")
    times = at.argument(1, "repeats")
    assert isinstance(times, tuple)
    x = at.unsqueezed(x, *range(len(times) - at.rank(x)))
    counts = []
    for dim, (n, made) in enumerate(zip(times, at.made.shape, strict=True)):
        shape = at.meta(x).shape
        whole = shape[dim] != 1 and isinstance(n, int)
        counts.append(n if whole and isinstance(n, int) else 1)
        if n == 1 or whole:
            continue
        if shape[dim] != 1:
            x = at.expanded(at.unsqueezed(x, dim), (*shape[:dim], _size(n), *shape[dim:]))
        x = at.reshaped(x, (*shape[:dim], made, *shape[dim + 1 :])) if shape[dim] != 1 else at.expanded(
            x, (*shape[:dim], made, *shape[dim + 1 :]))  # fmt: skip
    return x if all(n == 1 for n in counts) else at.node("repeat", x, times=tuple(counts))


def _size(argument: Argument) -> Size:
    assert isinstance(argument, int | Polynomial)
    return argument


def _repeat_interleave(at: Site) -> str:
    x = at.x(0, "self")
    if at.argument(2, "dim") is None:
        size = at.meta(x).shape[0] if at.rank(x) == 1 else None
        if size is None:
            raise UnloweredError("it repeats the elements of a tensor of several dims in one row")
    return at.node("repeat_interleave", x, dim=at.dim(2, "dim", at.rank(x), 0), times=at.integer(1, "repeats"))


def _same(at: Site) -> str:
    return at.x(0, "self")


def _cast(at: Site) -> str:
    return at.cast(at.x(0, "self"), at.made.dtype)


def _copy(at: Site) -> str:
    """Return what is copied, as large as what it is copied over."""
    x = at.cast(at.x(1, "src"), at.made.dtype)
    return at.expanded(at.unsqueezed(x, *range(len(at.made.shape) - at.rank(x))), at.made.shape)


VIEWS: Mapping[str, Row] = {
    **dict.fromkeys((
        "aten.view.default", "aten.reshape.default", "aten._unsafe_view.default", "aten.flatten.using_ints",
        "aten.unflatten.int", "aten.view_as.default", "aten.reshape_as.default", "aten.atleast_1d.default",
        "aten.atleast_2d.default", "aten.ravel.default",
    ), _reshape),
    "aten.permute.default": _permute,
    **dict.fromkeys(("aten.transpose.int", "aten.swapaxes.default", "aten.swapdims.default"), _transpose),
    **dict.fromkeys(("aten.t.default", "aten.mT.default", "aten.adjoint.default"), _turned),
    "aten.numpy_T.default": _reversed,
    **dict.fromkeys(("aten.movedim.int", "aten.movedim.intlist", "aten.moveaxis.int", "aten.moveaxis.intlist"),
                    _movedim),
    **dict.fromkeys(("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims"), _squeeze),
    "aten.unsqueeze.default": _unsqueeze,
    **dict.fromkeys(("aten.expand.default", "aten.expand_as.default", "aten.broadcast_to.default"), _expand),
    "aten.broadcast_tensors.default": _broadcast,
    **dict.fromkeys(("aten.repeat.default", "aten.tile.default"), _repeat),
    "aten.repeat_interleave.self_int": _repeat_interleave,
    **dict.fromkeys((
        "aten.alias.default", "aten.clone.default", "aten.contiguous.default", "aten.lift_fresh.default",
        "aten.lift_fresh_copy.default", "aten.positive.default",
    ), _same),
    **dict.fromkeys((
        "aten.to.device", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.other", "aten._to_copy.default",
        "aten.type_as.default",
    ), _cast),
    "aten.copy.default": _copy,
}  # fmt: skip
"""Calls that move nothing, and casts."""
