"""Parts of tensors: picked, cut off, put together, shifted and padded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ....core.symbol import Polynomial, Size, difference
from .site import Held, Row, Site, UnloweredError, text


def _select(at: Site) -> str:
    x = at.x(0, "self")
    return at.node("select", x, dim=at.dim(1, "dim", at.rank(x), 0), index=_index(at, at.argument(2, "index")))


def _index(at: Site, index: object) -> int:
    if not isinstance(index, int):
        raise UnloweredError(f"it picks the element {index}, which depends on symbols")
    return index


def cut(at: Site, x: str, dim: int, start: Size, size: Size, step: int = 1) -> str:
    """Return `size` elements of a dim from `start`, every `step`-th; a negative start counts from the end."""
    whole = at.meta(x).shape[dim]
    if whole == size and step == 1:
        return x
    if isinstance(start, Polynomial):
        # Counted from the end, a start that depends on symbols is often a number.
        left = difference(whole, start)
        if not isinstance(left, int):
            x = at.node("slice", x, dim=dim, tail=True, size=text((left,)))
            return cut(at, x, dim, 0, size, step)
        start = -left
    if isinstance(whole, int) and isinstance(size, int):
        start = start % whole
        return at.node("slice", x, dim=dim, start=start, stop=start + (size - 1) * step + 1, step=step)
    return at.node("slice", x, dim=dim, start=start, size=text((size,)), step=step)


def _slice(at: Site) -> str:
    x = at.x(0, "self")
    dim = at.dim(1, "dim", at.rank(x), 0)
    start = at.argument(2, "start", 0)
    assert start is None or isinstance(start, int | Polynomial)
    whole = at.meta(x).shape[dim]
    if isinstance(start, int) and start < 0 and isinstance(whole, int):
        start = max(0, start + whole)
    return cut(at, x, dim, start or 0, at.made.shape[dim], at.integer(4, "step", 1))


def _narrow(at: Site) -> str:
    x = at.x(0, "self")
    dim = at.dim(1, "dim", at.rank(x), 0)
    start = at.argument(2, "start")
    assert isinstance(start, int | Polynomial)
    return cut(at, x, dim, start, at.made.shape[dim])


def _split(at: Site) -> tuple[str, ...]:
    """Cut into the pieces that the results are."""
    x = at.x(0, "self")
    return pieces(at, x, at.dim(2, "dim", at.rank(x), 0), None)


def pieces(at: Site, x: str, dim: int, sizes: Sequence[Size] | None) -> tuple[str, ...]:
    """Cut a dim into pieces; of given sizes, or those of the call's results."""
    sizes = sizes or [meta.shape[dim] for meta in at.call.results]
    if len(sizes) == 1:
        return (x,)
    if all(isinstance(size, int) for size in sizes):
        return at.nodes("split", x, dim=dim, sizes=tuple(int(n) for n in sizes if isinstance(n, int)))
    starts: list[Size] = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    return tuple(cut(at, x, dim, start, size) for start, size in zip(starts, sizes, strict=False))


def _unbind(at: Site) -> list[Held]:
    x = at.x(0, "self")
    dim = at.dim(1, "dim", at.rank(x), 0)
    return [at.node("select", x, dim=dim, index=k) if k in at.used else x for k in range(len(at.call.results))]


def _concat(at: Site) -> str:
    rank = len(at.made.shape)
    names = [at.cast(x, at.made.dtype) for x in at.tensors(0, "tensors")]
    return at.node("concat", *names, dim=at.dim(1, "dim", rank, 0)) if len(names) > 1 else names[0]


def _stack(at: Site) -> str:
    names = [at.cast(x, at.made.dtype) for x in at.tensors(0, "tensors")]
    dim = at.dim(1, "dim", len(at.made.shape), 0)
    if len(names) == 1 or not at.meta(names[0]).shape:
        names = [at.unsqueezed(x, dim) for x in names]
        return at.node("concat", *names, dim=dim) if len(names) > 1 else names[0]
    return at.node("stack", *names, dim=dim)


def padded(at: Site, x: str, pads: Sequence[Size], value: float) -> str:
    """Return a value with every dim padded, or cut where a padding is negative; pairs from the last dim backwards."""
    for place in range(len(pads) // 2):
        dim = at.rank(x) - 1 - place
        before, after = pads[2 * place : 2 * place + 2]
        if not isinstance(before, int) or not isinstance(after, int):
            raise UnloweredError(f"it pads by {text((before, after))}, which depends on symbols")
        if before < 0 or after < 0:
            x = cut(at, x, dim, max(0, -before), at.meta(x).shape[dim] + (min(before, 0) + min(after, 0)))
        if before > 0 or after > 0:
            x = at.node("pad", x, dim=dim, before=max(before, 0), after=max(after, 0),
                        **({"value": value} if value else {}))  # fmt: skip
    return x


def _pad(at: Site) -> str:
    mode = at.word(2, "mode") or "constant"
    pads = at.argument(1, "pad")
    assert isinstance(pads, tuple)
    x = at.x(0, "self")
    sizes = tuple(p for p in pads if isinstance(p, int | Polynomial))
    if mode == "constant":
        return padded(at, x, sizes, at.real(3, "value", 0.0))
    for place in range(len(sizes) // 2):
        before, after = sizes[2 * place : 2 * place + 2]
        x = _bordered(at, x, at.rank(x) - 1 - place, before, after, mode)
    return x


def _bordered(at: Site, x: str, dim: int, before: Size, after: Size, mode: str) -> str:
    """Return a value with a dim padded by its own elements."""
    size = at.meta(x).shape[dim]
    if not isinstance(before, int) or not isinstance(after, int) or min(before, after) < 0:
        raise UnloweredError(f"it pads a dim of {size} by {text((before, after))} of its own elements")
    if mode not in _ENDS:
        raise UnloweredError(f"it pads in the mode {mode}")
    left, right = _ENDS[mode]
    parts = [left(at, x, dim, before)] if before else []
    parts += [x, right(at, x, dim, after)] if after else [x]
    return at.node("concat", *parts, dim=dim) if len(parts) > 1 else x


def _last(at: Site, x: str, dim: int, count: int, skipped: int = 0) -> str:
    """Return the last elements of a dim but for some."""
    return cut(at, x, dim, difference(at.meta(x).shape[dim], count + skipped), count)


def _spread(at: Site, x: str, dim: int, count: int) -> str:
    """Return one element of a dim so many times."""
    shape = at.meta(x).shape
    return at.expanded(x, (*shape[:dim], count, *shape[dim + 1 :]))


_End = Callable[[Site, str, int, int], str]
_ENDS: Mapping[str, tuple[_End, _End]] = {
    "reflect": (lambda at, x, dim, n: at.node("flip", cut(at, x, dim, 1, n), dim=dim),
                lambda at, x, dim, n: at.node("flip", _last(at, x, dim, n, 1), dim=dim)),
    "replicate": (lambda at, x, dim, n: _spread(at, cut(at, x, dim, 0, 1), dim, n),
                  lambda at, x, dim, n: _spread(at, _last(at, x, dim, 1), dim, n)),
    "circular": (_last, lambda at, x, dim, n: cut(at, x, dim, 0, n)),
}  # fmt: skip
"""What stands before and behind a dim that is padded by its own elements."""


def _constant_pad(at: Site) -> str:
    pads = at.argument(1, "pad")
    assert isinstance(pads, tuple)
    return padded(at, at.x(0, "self"), tuple(p for p in pads if isinstance(p, int | Polynomial)),
                  at.real(2, "value", 0.0))  # fmt: skip


def _roll(at: Site) -> str:
    x = at.x(0, "self")
    shifts, dims = at.integers(1, "shifts"), at.integers(2, "dims")
    if not dims:
        raise UnloweredError("it rolls all dims as one")
    for shift, dim in zip(shifts, dims, strict=True):
        x = at.node("roll", x, shift=shift, dim=dim % at.rank(x))
    return x


def _flip(at: Site) -> str:
    x = at.x(0, "self")
    for dim in at.integers(1, "dims"):
        x = at.node("flip", x, dim=dim % at.rank(x))
    return x


def _triangle(op: str) -> Row:
    def row(at: Site) -> str:
        return at.node(op, at.x(0, "self"), diagonal=at.integer(1, "diagonal", 0))

    return row


def _select_scatter(at: Site) -> str:
    """Put a slice of one element in its place."""
    x, source = at.x(0, "self"), at.x(1, "src")
    dim = at.dim(2, "dim", at.rank(x), 0)
    source = at.unsqueezed(at.cast(source, at.made.dtype), dim)
    return _put(at, x, source, dim, at.argument(3, "index"))


def _slice_scatter(at: Site) -> str:
    x, source = at.x(0, "self"), at.x(1, "src")
    if at.integer(5, "step", 1) != 1:
        raise UnloweredError("it writes to every so many-th element")
    dim = at.dim(2, "dim", at.rank(x), 0)
    start = at.argument(3, "start")
    return _put(at, x, at.cast(source, at.made.dtype), dim, 0 if start is None else start)


def _put(at: Site, x: str, source: str, dim: int, start: object) -> str:
    """Return x with a stretch of a dim replaced by another tensor."""
    whole, length = at.meta(x).shape[dim], at.meta(source).shape[dim]
    if whole == length:
        return source
    if not isinstance(start, int):
        raise UnloweredError(f"it writes from {start} on, which depends on symbols")
    begin = difference(whole, -start) if start < 0 else start
    end = difference(begin + length, 0)
    rest = difference(whole, end)
    parts = [cut(at, x, dim, 0, begin)] if begin != 0 else []
    parts.append(source)
    if rest != 0:
        parts.append(cut(at, x, dim, end, rest))
    return at.node("concat", *parts, dim=dim)


def _one_write(at: Site) -> str:
    raise UnloweredError("it writes into a view that it can't be written back from")


PARTS: Mapping[str, Row] = {
    "aten.select.int": _select,
    "aten.slice.Tensor": _slice,
    "aten.narrow.default": _narrow,
    **dict.fromkeys((
        "aten.split.Tensor", "aten.split.sizes", "aten.split_with_sizes.default", "aten.chunk.default",
        "aten.unsafe_chunk.default", "aten.unsafe_split.Tensor", "aten.split_with_sizes_copy.default",
        "aten.tensor_split.sections",
    ), _split),
    "aten.unbind.int": _unbind,
    **dict.fromkeys(("aten.cat.default", "aten.concat.default", "aten.concatenate.default"), _concat),
    "aten.stack.default": _stack,
    "aten.pad.default": _pad,
    "aten.constant_pad_nd.default": _constant_pad,
    "aten.roll.default": _roll,
    "aten.flip.default": _flip,
    "aten.tril.default": _triangle("tril"),
    "aten.triu.default": _triangle("triu"),
    "aten.select_scatter.default": _select_scatter,
    "aten.slice_scatter.default": _slice_scatter,
    "inplace.write": _one_write,
}  # fmt: skip
"""Calls that pick, cut, join and shift."""
