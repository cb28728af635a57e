"""Views, joins, picks, sums and new tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.symbol import Polynomial, Size, quotient
from ...core.tensor import TensorMeta
from ..aten.program import Argument, Ref
from .elements import Row, tensor
from .model import OnnxTensor
from .site import Site

_FAR = 1 << 31


def _product(sizes: Sequence[Size]) -> Size:
    total: Size = 1
    for size in sizes:
        total = total * size
    return total


def _same(a: Size, b: Size) -> bool:
    return Polynomial.of(a) == Polynomial.of(b)


def _reshape(at: Site) -> Ref:
    x, wanted = at.ref(0), at.sizes(1)
    shape = at.shape(x)
    if not at.integer("allowzero"):
        if any(size == 0 and place >= len(shape) for place, size in enumerate(wanted)):
            at.refuse("which keeps a dim that is not there")
        wanted = tuple(shape[place] if size == 0 else size for place, size in enumerate(wanted))
    return _reshaped(at, x, wanted)


def _reshaped(at: Site, x: Ref, wanted: tuple[Size, ...]) -> Ref:
    total = _product(at.shape(x))
    if wanted.count(-1) > 1:
        at.refuse("with two open sizes")
    if -1 in wanted:
        left = quotient(total, _product([size for size in wanted if size != -1]) or 1)
        if left is None:
            at.refuse(f"of {at.meta(x)} to {', '.join(map(str, wanted))}, which do not fit")
        wanted = tuple(left if size == -1 else size for size in wanted)
    if not _same(_product(wanted), total):
        at.refuse(f"of {at.meta(x)} to {', '.join(map(str, wanted))}, which do not fit")
    return at.call("aten.reshape.default", x, wanted, shape=wanted, dtype=at.meta(x).dtype)


def _flatten(at: Site) -> Ref:
    x = at.ref(0)
    shape = at.shape(x)
    axis = at.integer("axis", 1)
    axis = axis if axis == len(shape) else at.dim(axis, len(shape))
    return _reshaped(at, x, (_product(shape[:axis]), _product(shape[axis:])))


def _transpose(at: Site) -> Ref:
    x = at.ref(0)
    shape = at.shape(x)
    order = at.listed("perm") or tuple(reversed(range(len(shape))))
    if sorted(order) != list(range(len(shape))):
        at.refuse(f"with the order {order[:8]} of {len(shape)} dims")
    return at.call("aten.permute.default", x, order, shape=[shape[d] for d in order], dtype=at.meta(x).dtype)


def _axes(at: Site, place: int, rank: int) -> tuple[int, ...]:
    """Return dims that are an input or, in older versions, an attribute."""
    given = at.integers(place) if at.given(place) else at.listed("axes")
    return tuple(sorted({at.dim(axis, rank) for axis in given}))


def _squeeze(at: Site) -> Ref:
    x = at.ref(0)
    shape = at.shape(x)
    dims = _axes(at, 1, len(shape)) or tuple(i for i, size in enumerate(shape) if size == 1)
    if any(shape[dim] != 1 for dim in dims):
        at.refuse(f"of dims {dims} of {at.meta(x)}, which are not 1")
    made = [size for i, size in enumerate(shape) if i not in dims]
    return at.call("aten.squeeze.dims", x, dims, shape=made, dtype=at.meta(x).dtype)


def _unsqueeze(at: Site) -> Ref:
    x = at.ref(0)
    given = at.integers(1) if at.given(1) else at.listed("axes")
    rank = len(at.shape(x)) + len(given)
    for dim in sorted({at.dim(axis, rank) for axis in given}):
        shape = list(at.shape(x))
        shape.insert(dim, 1)
        x = at.call("aten.unsqueeze.default", x, dim, shape=shape, dtype=at.meta(x).dtype)
    return x


def _expand(at: Site) -> Ref:
    x = tensor(at, 0, at.meta(0).dtype)
    made = at.broadcast(at.shape(x), at.sizes(1))
    return at.call("aten.expand.default", x, made, shape=made, dtype=at.meta(x).dtype)


def _concat(at: Site) -> Ref:
    refs = [at.ref(place) for place in range(len(at.node.inputs)) if at.given(place)]
    shapes = [at.shape(ref) for ref in refs]
    if not refs or any(len(shape) != len(shapes[0]) for shape in shapes):
        at.refuse("of tensors of different ranks")
    dim = at.dim(at.integer("axis"), len(shapes[0]))
    total: Size = 0
    for shape in shapes:
        total = total + shape[dim]
        rest = [(a, b) for i, (a, b) in enumerate(zip(shape, shapes[0], strict=True)) if i != dim]
        if any(not _same(a, b) for a, b in rest):
            at.refuse(f"of {', '.join(str(at.meta(ref)) for ref in refs[:4])}, which do not fit")
    made = (*shapes[0][:dim], _plain(total), *shapes[0][dim + 1 :])
    return at.call("aten.cat.default", tuple(refs), dim, shape=made, dtype=at.meta(refs[0]).dtype)


def _plain(size: Size) -> Size:
    """Return a size that may be a polynomial without symbols as an integer."""
    if isinstance(size, Polynomial) and all(not names for names, _ in size.terms):
        return sum(count for _, count in size.terms)
    return size


def _split(at: Site) -> list[Ref]:
    x = at.ref(0)
    shape = at.shape(x)
    dim = at.dim(at.integer("axis"), len(shape))
    size, count = shape[dim], len(at.node.outputs)
    if at.given(1):
        pieces = at.integers(1)
    elif isinstance(size, int) and count > 0:
        width = -(-size // count)
        pieces = tuple(min(width, size - i * width) for i in range(count))
    else:
        at.refuse("that splits the batch or the sequence")
    if sum(pieces) != size or len(pieces) != count or min(pieces, default=0) < 1:
        at.refuse(f"of a dim of {size} into {pieces[:8]}")
    metas = [TensorMeta((*shape[:dim], n, *shape[dim + 1 :]), at.meta(x).dtype) for n in pieces]
    return at.calls("aten.split_with_sizes.default", x, pieces, dim, metas=metas)


def _slice(at: Site) -> Ref:
    x = at.ref(0)
    starts, stops = at.sizes(1), at.sizes(2)
    rank = len(at.shape(x))
    axes = at.integers(3) if at.given(3) else tuple(range(len(starts)))
    steps = at.integers(4) if at.given(4) else (1,) * len(starts)
    if not len(starts) == len(stops) == len(axes) == len(steps):
        at.refuse("with lists of different lengths")
    for start, stop, axis, step in zip(starts, stops, axes, steps, strict=True):
        dim = at.dim(axis, rank)
        shape = at.shape(x)
        first, last = _bound(at, start, shape[dim]), _bound(at, stop, shape[dim])
        if step < 1:
            at.refuse("that runs backward")
        length = _plain(last + Polynomial.of(first) * -1)
        if isinstance(length, Polynomial) and step != 1:
            at.refuse("with steps over the batch or the sequence", "Export the model with fixed sizes there.")
        size: Size = max(0, -(-length // step)) if isinstance(length, int) else length
        made = (*shape[:dim], size, *shape[dim + 1 :])
        x = at.call("aten.slice.Tensor", x, dim, first, last, step, shape=made, dtype=at.meta(x).dtype)
    return x


def _bound(at: Site, bound: Size, size: Size) -> Size:
    """Return a bound of a slice within the dim."""
    if isinstance(bound, int) and isinstance(size, int):
        return max(0, min(size, bound + size if bound < 0 else bound))
    if isinstance(bound, int):
        # To the end; else a place that is there for any size, as traces take it.
        return size if bound >= _FAR else _plain(size + bound) if bound < 0 else bound
    if _same(bound, size):
        return size
    if isinstance(size, int):
        at.refuse("that ends where the batch or the sequence does", "Export the model with fixed sizes there.")
    return bound


def _gather(at: Site) -> Ref:
    """Pick rows of a table, one slice, or some along a dim."""
    shape = at.shape(0)
    dim = at.dim(at.integer("axis"), len(shape))
    index = at.scalar(1)
    if index is not None and not at.shape(1):
        x = at.ref(0)
        return at.call(
            "aten.select.int", x, dim, int(index), shape=(*shape[:dim], *shape[dim + 1 :]), dtype=at.meta(x).dtype
        )
    places = at.ref(1)
    made = (*shape[:dim], *at.shape(places), *shape[dim + 1 :])
    if at.is_weight(0) and dim == 0 and len(shape) == 2:
        table = at.ref(0)
        return at.call("aten.embedding.default", table, places, shape=made, dtype=at.meta(table).dtype)
    x = at.ref(0)
    if len(at.shape(places)) == 1:
        return at.call("aten.index_select.default", x, dim, places, shape=made, dtype=at.meta(x).dtype)
    indices: tuple[Argument, ...] = (*(None,) * dim, places)
    return at.call("aten.index.Tensor", x, indices, shape=made, dtype=at.meta(x).dtype)


def _gather_elements(at: Site) -> Ref:
    x, places = at.ref(0), at.ref(1)
    dim = at.dim(at.integer("axis"), len(at.shape(x)))
    return at.call("aten.gather.default", x, dim, places, shape=at.shape(places), dtype=at.meta(x).dtype)


def _scatter_elements(at: Site) -> Ref:
    x = at.ref(0)
    if at.text("reduction", "none") not in {"none", "add"}:
        at.refuse("that does not add")
    target = "aten.scatter_add.default" if at.text("reduction", "none") == "add" else "aten.scatter.src"
    dim = at.dim(at.integer("axis"), len(at.shape(x)))
    return at.like(target, x, dim, at.ref(1), at.ref(2))


def _pad(at: Site) -> Ref:
    x = at.ref(0)
    shape = at.shape(x)
    pads = at.integers(1)
    axes = tuple(at.dim(axis, len(shape)) for axis in at.integers(3)) if at.given(3) else tuple(range(len(shape)))
    value = at.scalar(2) if at.given(2) else 0.0
    if at.text("mode", "constant") != "constant" or len(pads) != 2 * len(axes) or value is None:
        at.refuse("that is not of one value")
    before = dict(zip(axes, pads, strict=False))
    after = dict(zip(axes, pads[len(axes) :], strict=False))
    sides = tuple(n for dim in reversed(range(len(shape))) for n in (before.get(dim, 0), after.get(dim, 0)))
    made = [_plain(size + before.get(i, 0) + after.get(i, 0)) for i, size in enumerate(shape)]
    return at.call("aten.constant_pad_nd.default", x, sides, value, shape=made, dtype=at.meta(x).dtype)


def _tile(at: Site) -> Ref:
    x, times = at.ref(0), at.sizes(1)
    shape = at.shape(x)
    if len(times) != len(shape):
        at.refuse(f"of {len(shape)} dims {len(times)} times")
    made = [_plain(size * Polynomial.of(n)) for size, n in zip(shape, times, strict=True)]
    return at.call("aten.repeat.default", x, times, shape=made, dtype=at.meta(x).dtype)


def _reduced(target: str) -> Row:
    def row(at: Site) -> Ref:
        x = at.ref(0)
        shape = at.shape(x)
        dims = _axes(at, 1, len(shape))
        if not dims and at.integer("noop_with_empty_axes"):
            return at.like("aten.alias.default", x)
        dims, keep = dims or tuple(range(len(shape))), bool(at.integer("keepdims", 1))
        made = [1 if i in dims else size for i, size in enumerate(shape) if keep or i not in dims]
        if target == "linalg_vector_norm":
            return at.call("aten.linalg_vector_norm.default", x, 2.0, dims, keep, shape=made, dtype=at.meta(x).dtype)
        return at.call(f"aten.{target}", x, dims, keep, shape=made, dtype=at.meta(x).dtype)

    return row


def _argument(target: str) -> Row:
    def row(at: Site) -> Ref:
        x = at.ref(0)
        shape = at.shape(x)
        dim, keep = at.dim(at.integer("axis"), len(shape)), bool(at.integer("keepdims", 1))
        made = [1 if i == dim else size for i, size in enumerate(shape) if keep or i != dim]
        return at.call(f"aten.{target}.default", x, dim, keep, shape=made, dtype="int64")

    return row


def _top(at: Site) -> list[Ref]:
    x = at.ref(0)
    shape = at.shape(x)
    dim = at.dim(at.integer("axis", -1), len(shape))
    (count,) = at.integers(1) if len(at.sizes(1)) == 1 else (0,)
    if count < 1 or _less(shape[dim], count):
        at.refuse(f"of {count} of {shape[dim]}")
    made = (*shape[:dim], count, *shape[dim + 1 :])
    return at.calls(
        "aten.topk.default", x, count, dim, bool(at.integer("largest", 1)), bool(at.integer("sorted", 1)),
        metas=[TensorMeta(made, at.meta(x).dtype), TensorMeta(made, "int64")],
    )  # fmt: skip


def _less(size: Size, count: int) -> bool:
    return isinstance(size, int) and size < count


def _running(at: Site) -> Ref:
    x = at.ref(0)
    axes = at.integers(1)
    if at.integer("exclusive") or at.integer("reverse") or len(axes) != 1:
        at.refuse("that runs backward or leaves its own element out")
    return at.like("aten.cumsum.default", x, at.dim(axes[0], len(at.shape(x))))


def _triangle(at: Site) -> Ref:
    x = at.ref(0)
    diagonal = at.scalar(1) if at.given(1) else 0
    if not isinstance(diagonal, int) or len(at.shape(x)) < 2:
        at.refuse("whose diagonal is computed")
    return at.like(f"aten.{'triu' if at.integer('upper', 1) else 'tril'}.default", x, diagonal)


def _range(at: Site) -> Ref:
    numbers = [known.number if (known := at.known(place)) is not None else None for place in range(3)]
    start, stop, step = numbers
    if start is None or stop is None or not isinstance(step, int | float) or not step:
        at.refuse("whose bounds are computed of data")
    first, last = at.sizes(0)[0], at.sizes(1)[0]
    span = _plain(last + Polynomial.of(first) * -1)
    if isinstance(span, int):
        length: Size = max(0, -int(-span // step))
    elif step == 1:
        length = span
    else:
        at.refuse("with steps over the batch or the sequence")
    dtype = at.meta(0).dtype
    step = int(step) if float(step).is_integer() else step
    return at.call(
        "aten.arange.start_step", first, last, step, shape=(length,), dtype=dtype, named={"dtype": at.word(dtype)}
    )


def _filled(at: Site) -> Ref:
    sizes = at.sizes(0)
    value = at.node.attributes.get("value")
    single = value.values[0] if isinstance(value, OnnxTensor) and value.values else 0.0
    dtype = at.all.dtype(value.dtype if isinstance(value, OnnxTensor) else "float32")
    return at.call("aten.full.default", sizes, single, shape=sizes, dtype=dtype, named={"dtype": at.word(dtype)})


def _one_hot(at: Site) -> Ref:
    x, count = at.ref(0), at.integers(1)
    shape = at.shape(x)
    known = at.known(2)
    if len(count) != 1 or count[0] < 1 or known is None or tuple(known.values) != (0, 1):
        at.refuse("of other values than 0 and 1")
    if at.integer("axis", -1) not in {-1, len(shape)}:
        at.refuse("along another dim than a last one")
    made = at.call("aten.one_hot.default", x, count[0], shape=(*shape, count[0]), dtype="int64")
    return at.cast(made, at.all.dtype(known.dtype))


TENSORS: Mapping[str, Row] = {
    "Reshape": _reshape, "Flatten": _flatten, "Transpose": _transpose, "Squeeze": _squeeze, "Unsqueeze": _unsqueeze,
    "Expand": _expand, "Concat": _concat, "Split": _split, "Slice": _slice, "Gather": _gather,
    "GatherElements": _gather_elements, "ScatterElements": _scatter_elements, "Pad": _pad, "Tile": _tile,
    "ReduceMean": _reduced("mean.dim"), "ReduceSum": _reduced("sum.dim_IntList"), "ReduceMax": _reduced("amax.default"),
    "ReduceMin": _reduced("amin.default"), "ReduceL2": _reduced("linalg_vector_norm"), "ArgMax": _argument("argmax"),
    "ArgMin": _argument("argmin"), "TopK": _top, "CumSum": _running, "Trilu": _triangle, "Range": _range,
    "ConstantOfShape": _filled, "OneHot": _one_hot,
}  # fmt: skip
"""ONNX operator → its row."""
