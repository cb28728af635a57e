"""Recognises what a constant is by its values: one value, a range, a mask of attention, or a few numbers.

Nothing here looks at the operators that made it: models write one mask in many ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....core.tensor import TensorMeta
from .samples import Sample

VALUES = 1 << 12
"""Elements of the largest constant that is kept as a list of its values."""
HIDING = -1e4
"""Numbers of this size or below, added to a score, leave its key without weight."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """One value everywhere."""

    value: float | bool


@dataclass(frozen=True, slots=True)
class Range:
    """`start + step · i` along one dim, the same along the others."""

    dim: int
    start: int
    step: int


@dataclass(frozen=True, slots=True)
class Mask:
    """Which keys a query sees: those up to its own place, of them the last `window`, or those of its `chunk`.

    Parameters
    ----------
    window, chunk
        0 for none.
    reach
        Keys at most this far before and after are seen, in place of those up to the query's; −1 for none.
    fill
        What hidden keys have where others have 0; None in a mask of truth values.
    """

    window: int = 0
    chunk: int = 0
    reach: int = -1
    fill: float | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """A few numbers, the same for every batch and sequence.

    Parameters
    ----------
    shape
        1 along dims in which nothing changes.
    """

    shape: tuple[int, ...]
    values: tuple[float, ...] | tuple[int, ...]


Form = Uniform | Range | Mask | Values


def form_of(meta: TensorMeta, samples: Sequence[Sample], bounds: Sequence[int]) -> Form | None:
    """Return what a value is; None if it is nothing that is known.

    Parameters
    ----------
    samples
        The value in several sizes, at least one.
    bounds
        Numbers that may be a window or a chunk.
    """
    if not all(sample.array.size for sample in samples):
        return None
    square = len(meta.shape) >= 2 and meta.shape[-1] == meta.shape[-2]
    recognisers: list[Callable[[Any], Form | None]] = [_uniform, _range, _values]
    if square and isinstance(meta.shape[-1], int):
        # Of a fixed length; a mask says more than its values do.
        recognisers.insert(2, lambda array: _fixed_mask(array, bounds))
    for recognise in recognisers:
        found = [recognise(sample.array) for sample in samples]
        if found[0] is not None and all(one == found[0] for one in found):
            return found[0]
    return _mask(samples, bounds) if square and not isinstance(meta.shape[-1], int) else None


def _fixed_mask(array: Any, bounds: Sequence[int]) -> Mask | None:
    return _mask((Sample({}, np.arange(array.shape[-2]), array),), bounds)


def _uniform(array: Any) -> Uniform | None:
    if not array.size or (array != array.flat[0]).any():
        return None
    return Uniform(array.flat[0].item())


def changing(array: Any) -> tuple[int, ...]:
    """Return the dims along which an array changes."""
    return tuple(d for d in range(array.ndim) if (array != array.take([0], d)).any())


def base_of(array: Any) -> Any:
    """Return an array with size 1 along dims in which nothing changes."""
    kept = changing(array)
    return array[tuple(slice(None) if d in kept else slice(0, 1) for d in range(array.ndim))]


def _range(array: Any) -> Range | None:
    dims = changing(array)
    if len(dims) != 1 or array.dtype == bool:
        return None
    line = base_of(array).ravel()
    steps = np.diff(line)
    if (steps != steps[0]).any() or float(line[0]) % 1 or float(steps[0]) % 1 or not steps[0]:
        return None
    return Range(dims[0], int(line[0]), int(steps[0]))


def _values(array: Any) -> Values | None:
    base = base_of(array)
    return Values(base.shape, tuple(base.ravel().tolist())) if base.size <= VALUES else None


def _mask(samples: Sequence[Sample], bounds: Sequence[int]) -> Mask | None:
    fill: float | None = None
    seen: list[tuple[Any, Any]] = []
    for sample in samples:
        array = base_of(sample.array)
        if array.ndim != 2 and any(size != 1 for size in array.shape[:-2]):
            return None
        square = np.broadcast_to(array.reshape(array.shape[-2:]), sample.array.shape[-2:])
        if square.dtype != bool:
            hidden = square <= HIDING
            if not hidden.any() or (square[~hidden] != 0).any():
                return None
            values = set(np.unique(square[hidden]).tolist())
            fill = values.pop() if len(values) == 1 and fill in (None, *values) else float("-inf")
            square = ~hidden
        seen.append((sample.rows, square))
    near = sorted({1, 2, 3, *(n for bound in bounds for n in (bound // 2, bound - 1, bound, bound + 1))})
    guesses = [Mask(), *(Mask(window=n) for n in near), *(Mask(chunk=n) for n in near),
               *(Mask(reach=n) for n in (0, *near))]  # fmt: skip
    for guess in guesses:
        if all(np.array_equal(square, visible(guess, rows, square.shape[-1])) for rows, square in seen):
            return Mask(guess.window, guess.chunk, guess.reach, fill)
    return None


def visible(mask: Mask, rows: Any, keys: int) -> Any:
    """Return which of `keys` keys the queries at `rows` see."""
    query, key = rows[:, None], np.arange(keys)[None, :]
    if mask.reach >= 0:
        return np.abs(query - key) <= mask.reach
    seen = key <= query
    if mask.window:
        seen = seen & (query - key < mask.window)
    return seen & (key >= query // mask.chunk * mask.chunk) if mask.chunk else seen
