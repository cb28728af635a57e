"""Reads and writes by index."""

from __future__ import annotations

from collections.abc import Mapping

from ....core.symbol import Size
from ..program import Argument
from .elements import scaled
from .site import Row, Site, UnloweredError, text


def _embedding(at: Site) -> str:
    tokens, weight, padding = at.x(1, "indices"), at.x(0, "weight"), at.integer(2, "padding_idx", -1)
    rows = at.meta(weight).shape[0]
    given = {}
    if padding != -1:
        assert isinstance(rows, int)
        given["padding"] = padding % rows
    return at.node("embedding", tokens, weight, **given)


def _bag(at: Site) -> str:
    """Sum the rows of bags of one size; torch gives bags as offsets, or as the rows of a matrix."""
    weight, tokens = at.x(0, "weight"), at.x(1, "indices")
    if {1, 2, 3} & at.used:
        raise UnloweredError("where its bags begin is asked for")
    if at.rank(tokens) != 2:
        tokens = _rows_of_bags(at, tokens, at.x(2, "offsets"))
    mode = at.integer(4, "mode", 0)
    if mode == 2 or at.given(6, "per_sample_weights"):
        raise UnloweredError("it weighs the rows of a bag, or takes the largest")
    return at.node("embedding_bag", tokens, weight, mode="mean" if mode == 1 else "sum")


def _rows_of_bags(at: Site, tokens: str, offsets: str) -> str:
    """Return tokens as one row a bag, where bags begin every so many tokens."""
    made, (bags,) = at.build.maker(offsets), at.meta(offsets).shape
    step = dict(made.attributes).get("step") if made and made.op == "arange" else None
    if not isinstance(step, int) or at.meta(tokens).shape != (step * bags,):
        raise UnloweredError(f"where its {bags} bags begin is data, so that they may differ in size")
    return at.reshaped(tokens, (bags, step))


def _gather(at: Site) -> str:
    x, index = at.x(0, "self"), at.x(2, "index")
    dim = at.dim(1, "dim", at.rank(x))
    return at.node("gather", _as_large(at, x, index, dim), index, dim=dim)


def _as_large(at: Site, x: str, index: str, dim: int) -> str:
    """Return x cut to the rows that an index has, in all dims but the indexed one."""
    for d, size in enumerate(at.meta(index).shape):
        if d != dim and at.meta(x).shape[d] != size:
            if not isinstance(size, int):
                raise UnloweredError(f"its index has {size} of {at.meta(x).shape[d]} rows")
            x = at.node("slice", x, dim=d, start=0, stop=size, step=1)
    return x


def _along(at: Site) -> str:
    """Gather with an index that is broadcast."""
    x, index = at.x(0, "self"), at.x(1, "indices")
    dim = at.dim(2, "dim", at.rank(x))
    a, b = at.meta(x).shape, at.meta(index).shape
    shape = [m if n == 1 else n for n, m in zip(a, b, strict=True)]
    x = at.expanded(x, [a[d] if d == dim else n for d, n in enumerate(shape)])
    index = at.expanded(index, [b[d] if d == dim else n for d, n in enumerate(shape)])
    return at.node("gather", x, index, dim=dim)


def _index_select(at: Site) -> str:
    x = at.x(0, "self")
    return at.node("index_select", x, at.x(2, "index"), dim=at.dim(1, "dim", at.rank(x)))


def _index(at: Site) -> str:
    """Take elements by one index, or by several of neighbouring dims, which are merged to one first."""
    x = at.x(0, "self")
    x, flat, place, made = _one_index(at, x, at.argument(1, "indices"))
    rows = at.node("index_select", x, at.reshaped(flat, (_count(at.meta(flat).shape),)), dim=place)
    shape = at.meta(x).shape
    return at.reshaped(rows, (*shape[:place], *made, *shape[place + 1 :]))


def _count(shape: tuple[Size, ...]) -> Size:
    total: Size = 1
    for size in shape:
        total = total * size
    return total


def _one_index(at: Site, x: str, indices: Argument) -> tuple[str, str, int, tuple[Size, ...]]:
    """Return x with the indexed dims merged, the index into that dim, the dim, and the shape of the index."""
    assert isinstance(indices, tuple)
    places = [i for i, index in enumerate(indices) if index is not None]
    if places != list(range(places[0], places[-1] + 1)):
        raise UnloweredError("it indexes dims that are not neighbours")
    values = [at.value(indices[i]) for i in places]
    if any(at.meta(v).dtype == "bool" for v in values):
        raise UnloweredError("it picks by a mask, so that the number of elements depends on data")
    shape = at.meta(x).shape
    sizes = [shape[i] for i in places]
    values = [_from_front(at, value, size) for value, size in zip(values, sizes, strict=True)]
    flat = values[0]
    for value, size in zip(values[1:], sizes[1:], strict=True):
        rows = scaled(at, flat, size) if isinstance(size, int) else at.node("mul", flat, at.amount(size))
        flat = at.node("add", rows, value)
    x = at.reshaped(x, (*shape[: places[0]], _count(tuple(sizes)), *shape[places[-1] + 1 :]))
    return x, flat, places[0], at.meta(flat).shape


def _from_front(at: Site, index: str, size: Size) -> str:
    """Return an index whose known values are counted from the front."""
    made = at.build.maker(index)
    given = dict(made.attributes) if made and made.op in {"constant", "full"} else {}
    held = given.get("values", given.get("value", ()))
    values = [v for v in (held if isinstance(held, tuple) else (held,)) if isinstance(v, int | float)]
    if all(v >= 0 for v in values):
        return index
    if not isinstance(size, int):
        raise UnloweredError(f"it counts from the end of a dim of {size}")
    meta, places = at.meta(index), tuple(int(v) % size for v in values)
    if "value" in given:
        return at.full(meta.shape, places[0], meta.dtype)
    return at.node("constant", values=places, sizes=text(meta.shape), dtype=meta.dtype)


def _index_put(at: Site) -> str:
    """Write, or add, rows at the places that one index, or several, name."""
    x = at.x(0, "self")
    whole = at.meta(x).shape
    x, flat, place, made = _one_index(at, x, at.argument(1, "indices"))
    shape = at.meta(x).shape
    rows: Size = _count(made)
    source = at.cast(at.x(2, "values"), at.made.dtype)
    target = (*shape[:place], *made, *shape[place + 1 :])
    source = at.expanded(at.unsqueezed(source, *range(len(target) - at.rank(source))), target)
    source = at.reshaped(source, (*shape[:place], rows, *shape[place + 1 :]))
    index = at.reshaped(flat, (rows,))
    if at.flag(3, "accumulate", False):
        return at.reshaped(at.node("index_add", x, index, source, dim=place), whole)
    index = at.reshaped(index, [rows if d == place else 1 for d in range(len(shape))])
    index = at.expanded(index, at.meta(source).shape)
    return at.reshaped(at.node("scatter", x, index, source, dim=place), whole)


def _scatter(op: str, source_at: int = 3) -> Row:
    def row(at: Site) -> str:
        x, index = at.x(0, "self"), at.x(2, "index")
        dim = at.dim(1, "dim", at.rank(x))
        number = at.number(source_at, "src") if at.given(source_at, "src") else at.number(source_at, "value")
        shape = at.meta(index).shape
        if number is not None:
            source = at.full(shape, number, at.made.dtype)
        else:
            source = at.cast(at.x(source_at, "src"), at.made.dtype)
            for d, size in enumerate(shape):
                if at.meta(source).shape[d] != size and isinstance(size, int):
                    source = at.node("slice", source, dim=d, start=0, stop=size, step=1)
        return at.node(op, x, index, source, dim=dim)

    return row


def _index_add(at: Site) -> str:
    x, source = at.x(0, "self"), at.x(3, "source")
    source = scaled(at, source, at.real(4, "alpha", 1.0))
    return at.node("index_add", x, at.x(2, "index"), source, dim=at.dim(1, "dim", at.rank(x)))


def _index_copy(at: Site) -> str:
    x, index, source = at.x(0, "self"), at.x(2, "index"), at.x(3, "source")
    dim, rank = at.dim(1, "dim", at.rank(x)), at.rank(x)
    index = at.reshaped(index, [at.meta(index).shape[0] if d == dim else 1 for d in range(rank)])
    return at.node("scatter", x, at.expanded(index, at.meta(source).shape), source, dim=dim)


INDICES: Mapping[str, Row] = {
    "aten.embedding.default": _embedding,
    **dict.fromkeys(("aten.embedding_bag.default", "aten.embedding_bag.padding_idx"), _bag),
    "aten.gather.default": _gather,
    "aten.take_along_dim.default": _along,
    "aten.index_select.default": _index_select,
    "aten.index.Tensor": _index,
    "aten.index_put.default": _index_put,
    **dict.fromkeys(("aten.scatter.src", "aten.scatter.value"), _scatter("scatter")),
    "aten.scatter_add.default": _scatter("scatter_add"),
    "aten.index_add.default": _index_add,
    "aten.index_copy.default": _index_copy,
}  # fmt: skip
"""Calls that read or write by index."""
