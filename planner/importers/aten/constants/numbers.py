"""What ATen operators compute, in numpy: those with which models make masks, positions and tables.

`FUNCTIONS` has one entry an operator, without its overload: arrays and numbers as the call has them → one array, or a
tuple of them. Floating numbers are float64, integers int64; the evaluator converts what comes out to the type that the
call's result has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

Array = Any
Function = Callable[..., Any]
MANY = 1 << 62
"""An end of a slice that stands for none."""


class NotConstant(Exception):
    """A value can't be computed here; the message says why."""


def _arange(*bounds: float, **_: object) -> Array:
    return np.arange(*bounds)


def _rounded(x: Array, y: Array, rounding_mode: str | None = None) -> Array:
    quotient = np.true_divide(x, y)
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    return np.trunc(quotient) if rounding_mode == "trunc" else quotient


def _slice(x: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    where: list[Any] = [slice(None)] * x.ndim
    where[dim] = slice(start, None if end is None or end >= MANY else end, step)
    return x[tuple(where)]


def _pad(x: Array, sizes: Sequence[int], mode: object = "constant", value: object = None) -> Array:
    # The overload without a mode has the value in its place.
    fill = mode if not isinstance(mode, str) else value
    if (isinstance(mode, str) and mode != "constant") or min(sizes) < 0:
        raise NotConstant("a pad that repeats or cuts off")
    pairs: Any = [(0, 0)] * (x.ndim - len(sizes) // 2) + list(zip(sizes[::2], sizes[1::2], strict=True))[::-1]
    return np.pad(x, pairs, constant_values=np.asarray(0 if fill is None else fill))


def _expand(x: Array, sizes: Sequence[int], **_: object) -> Array:
    added = len(sizes) - x.ndim
    return np.broadcast_to(x, [x.shape[i - added] if size == -1 else size for i, size in enumerate(sizes)])


def _squeeze(x: Array, dims: int | Sequence[int] | None = None) -> Array:
    asked = range(x.ndim) if dims is None else (dims,) if isinstance(dims, int) else dims
    return np.squeeze(x, tuple(d for d in {d % x.ndim for d in asked} if x.shape[d] == 1))


def _flatten(x: Array, start: int = 0, end: int = -1) -> Array:
    start, end = start % max(x.ndim, 1), end % max(x.ndim, 1)
    return x.reshape(*x.shape[:start], -1, *x.shape[end + 1 :])


def _unflatten(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    dim %= x.ndim
    return x.reshape(*x.shape[:dim], *sizes, *x.shape[dim + 1 :])


def _split(x: Array, sizes: int | Sequence[int], dim: int = 0) -> tuple[Array, ...]:
    widths = list(range(sizes, x.shape[dim], sizes)) if isinstance(sizes, int) else list(np.cumsum(sizes)[:-1])
    return tuple(np.split(x, widths, dim))


def _chunk(x: Array, count: int, dim: int = 0) -> tuple[Array, ...]:
    return _split(x, -(-x.shape[dim] // count), dim)


def _index(x: Array, indices: Sequence[Array | None]) -> Array:
    return x[tuple(slice(None) if index is None else index for index in indices)]


def _gather(x: Array, dim: int, index: Array, **_: object) -> Array:
    return np.take_along_axis(x[tuple(slice(0, None if d == dim % x.ndim else n) for d, n in enumerate(index.shape))],
                              index, dim)  # fmt: skip


def _index_put(x: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False) -> Array:
    if accumulate:
        raise NotConstant("places that are added to")
    out = x.copy()
    out[tuple(slice(None) if index is None else index for index in indices)] = values
    return out


def _slice_scatter(
    x: Array, source: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    out = x.copy()
    _slice(out, dim, start, end, step)[...] = source
    return out


def _select_scatter(x: Array, source: Array, dim: int, index: int) -> Array:
    out = x.copy()
    np.moveaxis(out, dim, 0)[index] = source
    return out


def _diff(x: Array, n: int = 1, dim: int = -1, prepend: Array | None = None, append: Array | None = None) -> Array:
    more = {name: given for name, given in (("prepend", prepend), ("append", append)) if given is not None}
    return np.diff(x, n, dim, **more) if x.dtype != bool else np.diff(x, n, dim)


def _clamp(x: Array, low: Array | None = None, high: Array | None = None) -> Array:
    x = x if low is None else np.maximum(x, low)
    return x if high is None else np.minimum(x, high)


def _extreme(reduce: Function, pair: Function) -> Function:
    def both(x: Array, other: Any = None, keepdim: bool = False) -> Any:
        if other is None:
            return reduce(x)
        if isinstance(other, np.ndarray):
            return pair(x, other)
        raise NotConstant("values with their places")

    return both


def _reduction(reduce: Function) -> Function:
    def run(x: Array, dims: int | Sequence[int] | None = None, keepdim: bool = False, **_: object) -> Array:
        asked = None if dims is None or dims == () else (dims,) if isinstance(dims, int) else tuple(dims)
        return reduce(x, axis=asked, keepdims=keepdim)

    return run


def _roll(x: Array, shifts: int | Sequence[int], dims: int | Sequence[int] = ()) -> Array:
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    dims = (dims,) if isinstance(dims, int) else tuple(dims)
    return np.roll(x, shifts, dims) if dims else np.roll(x, shifts[0])


def _repeat(x: Array, times: Sequence[int]) -> Array:
    return np.tile(x, times)


def _repeat_interleave(x: Array, times: int, dim: int | None = None, **_: object) -> Array:
    if not isinstance(times, int):
        raise NotConstant("another number of repeats for each element")
    return np.repeat(x, times, dim)


def _meshgrid(arrays: Sequence[Array], indexing: Any = "ij") -> tuple[Array, ...]:
    return tuple(np.meshgrid(*arrays, indexing=indexing))


def _one_hot(x: Array, classes: int = -1) -> Array:
    if classes < 0:
        raise NotConstant("as many classes as the values show")
    return (x[..., None] == np.arange(classes)).astype(np.int64)


def _first(x: Array, *_: object, **__: object) -> Array:
    return x


def _like(value: float) -> Function:
    return lambda shape, *_, **__: np.full(shape, value)


def _filled(shape: Sequence[int], value: Any, *_: object, **__: object) -> Array:
    return np.full(shape, value)


MADE: Mapping[str, Function] = MappingProxyType({
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros"), _like(0)),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), _like(1)),
})  # fmt: skip
"""Operators whose result is its shape alone and one number; they take that shape, whatever they read."""
FILLED: Mapping[str, int] = MappingProxyType({"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0})
"""Operators that fill their result with one argument, and the place of that argument."""
_SAME = (
    "exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "sin", "cos", "tan", "tanh", "sign", "floor", "ceil",
    "round", "maximum", "minimum", "isnan", "isinf",
)  # fmt: skip
"""Elementwise operators that numpy names like torch."""
ELEMENTWISE: Mapping[str, Function] = MappingProxyType({
    "add": lambda x, y, alpha=1: x + alpha * np.asarray(y), "sub": lambda x, y, alpha=1: x - alpha * np.asarray(y),
    "rsub": lambda x, y, alpha=1: y - alpha * x, "mul": lambda x, y: x * np.asarray(y), "div": _rounded,
    "true_divide": np.true_divide, "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod,
    "pow": lambda x, y: np.power(np.asarray(x, np.float64), y), "square": np.square, "reciprocal": lambda x: 1 / x,
    **{name: getattr(np, name) for name in _SAME},
    "rsqrt": lambda x: 1 / np.sqrt(x), "neg": np.negative, "abs": np.abs, "trunc": np.trunc,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "clamp": _clamp, "clip": _clamp,
    "clamp_min": lambda x, low: np.maximum(x, low), "clamp_max": lambda x, high: np.minimum(x, high),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    **dict.fromkeys(("logical_and", "bitwise_and", "__and__"), np.logical_and),
    **dict.fromkeys(("logical_or", "bitwise_or", "__or__"), np.logical_or),
    **dict.fromkeys(("logical_xor", "bitwise_xor", "__xor__"), np.logical_xor),
    **dict.fromkeys(("logical_not", "bitwise_not"), np.logical_not),
    "where": lambda condition, x, y: np.where(condition, x, y),
    "masked_fill": lambda x, mask, value: np.where(mask, value, x),
    **dict.fromkeys(("to", "_to_copy", "type_as", "clone", "contiguous", "detach", "detach_", "alias",
                     "lift_fresh", "lift_fresh_copy",
                     "float", "long", "int", "bool", "double", "half", "bfloat16"), _first),
    "copy": lambda x, source, *_: np.broadcast_to(source, x.shape),
})  # fmt: skip
"""Operators that work element by element on operands which are broadcast."""
BITWISE = frozenset({"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "__and__", "__or__", "__xor__"})
"""Of these, the ones that are other operators on integers."""
SHAPED: Mapping[str, Function] = MappingProxyType({
    "arange": _arange, "linspace": lambda start, end, steps, **_: np.linspace(start, end, steps),
    "eye": lambda n, m=None, **_: np.eye(n, m),
    **dict.fromkeys(("view", "reshape", "_unsafe_view"), lambda x, sizes, *_: np.reshape(x, sizes)),
    "unsqueeze": np.expand_dims, "squeeze": _squeeze, "expand": _expand,
    "expand_as": lambda x, y: np.broadcast_to(x, y.shape), "permute": lambda x, dims: np.transpose(x, dims),
    "transpose": np.swapaxes, "t": np.transpose, "numpy_T": np.transpose, "mT": lambda x: np.swapaxes(x, -1, -2),
    "movedim": np.moveaxis, "slice": _slice, "select": lambda x, dim, index: np.take(x, index, dim),
    "narrow": lambda x, dim, start, length: _slice(x, dim, start, start + length), "flatten": _flatten,
    "unflatten": _unflatten, "split": _split, "split_with_sizes": _split, "chunk": _chunk,
    "unbind": lambda x, dim=0: tuple(np.moveaxis(x, dim, 0)), "repeat": _repeat,
    "repeat_interleave": _repeat_interleave, "flip": lambda x, dims: np.flip(x, tuple(dims)), "roll": _roll,
    "stack": lambda arrays, dim=0: np.stack(arrays, dim), "cat": lambda arrays, dim=0: np.concatenate(arrays, dim),
    "pad": _pad, "constant_pad_nd": _pad, "tril": lambda x, diagonal=0: np.tril(x, diagonal),
    "triu": lambda x, diagonal=0: np.triu(x, diagonal), "meshgrid": _meshgrid,
    "index": _index, "gather": _gather, "index_select": lambda x, dim, index: np.take(x, index, dim),
    "embedding": lambda table, index, *_: table[index], "index_put": _index_put, "one_hot": _one_hot,
    "slice_scatter": _slice_scatter, "select_scatter": _select_scatter, "diff": _diff,
    "cumsum": lambda x, dim, **_: np.cumsum(x, dim), "cumprod": lambda x, dim, **_: np.cumprod(x, dim),
    "max": _extreme(np.max, np.maximum), "min": _extreme(np.min, np.minimum), "sum": _reduction(np.sum),
    "mean": _reduction(np.mean), "prod": _reduction(np.prod), "amax": _reduction(np.max), "amin": _reduction(np.min),
    "any": _reduction(np.any), "all": _reduction(np.all), "argmax": lambda x, dim=None, *_: np.argmax(x, dim),
    "matmul": np.matmul, "mm": np.matmul, "bmm": np.matmul, "outer": np.outer,
    "einsum": lambda equation, arrays, **_: np.einsum(equation, *arrays),
})  # fmt: skip
"""Operators whose result has another shape than their operands, or reads other places."""
FUNCTIONS: Mapping[str, Function] = MappingProxyType({**ELEMENTWISE, **SHAPED})
