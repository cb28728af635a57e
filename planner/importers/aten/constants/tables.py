"""Recognises rotary tables: cosines and sines of position times frequency, in any layout and scale.

The frequencies are read off the angles, and so are the attributes that make them: a base theta, and the rule of Llama
3.1 for long contexts. Frequencies that follow no such rule are kept one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....core.graph import Attribute
from ..program import Call, Ref
from .evaluate import name_of
from .forms import changing
from .samples import Sample, Samples

CLOSE = 4e-6
"""Relative error of frequencies that were computed in fp32."""

Place = tuple[tuple[int, int], float]
"""The dims of positions and columns of a table, and its scale."""


@dataclass(frozen=True, slots=True)
class Angles:
    """Angles of all positions.

    Parameters
    ----------
    stem
        The first call that takes cosines of them, or picks rows of a table; where the table belongs.
    frequencies
        Angle of position 1, per column.
    """

    stem: Call
    frequencies: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A rotary table, or one of the two that it consists of.

    Parameters
    ----------
    sine
        Whether it is the table of sines.
    dims
        The dims of positions and of columns; all others repeat it.
    attributes
        Those of the operator `rotary_table`.
    stem
        The first call that takes cosines of these angles.
    """

    sine: bool
    dims: tuple[int, int]
    attributes: tuple[tuple[str, Attribute], ...]
    stem: str


def angles_of(samples: Samples) -> tuple[Angles, ...]:
    """Return all sets of angles of which a program takes cosines and sines, or of which it holds tables of both."""
    by_angle: dict[str, dict[str, Call]] = {}
    found: dict[tuple[float, ...], Angles] = {}
    for call in samples.calls.values():
        name = name_of(call)
        if name in {"cos", "sin"} and isinstance(call.arguments[0], Ref):
            by_angle.setdefault(call.arguments[0].name, {}).setdefault(name, call)
        elif name in PICKS and not any(
            name_of(samples.calls[a]) in {"cos", "sin"} for a in samples.ancestors(call.name)
        ):
            frequencies = _sines(samples.of(call.name))
            if frequencies:
                found.setdefault(frequencies, Angles(call, frequencies))
    for angle, calls in by_angle.items():
        if len(calls) == 2:
            frequencies = _frequencies(samples.of(angle))
            if frequencies:
                found.setdefault(frequencies, Angles(calls["cos"], frequencies))
    return tuple(found.values())


PICKS = frozenset({"gather", "index", "index_select", "embedding", "slice"})
"""Operators that pick the rows of a table that a buffer holds."""


def _sines(samples: Sequence[Sample]) -> tuple[float, ...]:
    """Return the angles of position 1 of the columns that are sines; nothing if the others are no cosines of them."""
    if not samples or samples[0].array.dtype.kind != "f":
        return ()
    found = _rows(samples[0])
    if found is None or np.abs(found[1][1]).max() > 1:
        return ()
    rows = found[1]
    sines, cosines = (np.flatnonzero(rows[0] == value) for value in (0, 1))
    first = np.arcsin(rows[1][sines])
    if not len(sines) or len(sines) + len(cosines) != rows.shape[1] or len(cosines) not in (0, len(sines)):
        return ()
    angles = np.arange(len(rows))[:, None] * first
    pairs = ((sines, np.sin(angles)), (cosines, np.cos(angles[:, : len(cosines)])))
    return tuple(first.tolist()) if all(np.allclose(rows[:, at], x, atol=1e-5) for at, x in pairs) else ()


def _frequencies(samples: Sequence[Sample]) -> tuple[float, ...]:
    """Return the angles of position 1 if all angles are multiples of them; else nothing."""
    first: Any = None
    for sample in samples:
        found = _rows(sample)
        if found is None:
            return ()
        _, rows = found
        first = rows[1] if first is None else first
        if not np.allclose(rows, np.arange(len(rows))[:, None] * first, rtol=1e-5, atol=1e-9):
            return ()
    return () if first is None else tuple(first.tolist())


def _rows(sample: Sample) -> tuple[tuple[int, int], Any] | None:
    """Return the dims of positions and of columns, and the value as a matrix of both; None if it changes elsewhere."""
    array, length = sample.array, sample.symbols.get("S", 0)
    if array.ndim < 2 or length < 2:
        return None
    columns = array.ndim - 1
    places = [d for d in range(columns) if array.shape[d] == length]
    if len(places) != 1 or not set(changing(array)) <= {places[0], columns}:
        return None
    matrix = array[tuple(slice(None) if d in (places[0], columns) else 0 for d in range(array.ndim))]
    return (places[0], columns), matrix


def table_of(samples: Sequence[Sample], angles: Sequence[Angles]) -> Table | None:
    """Return what table a value is; None if it is none of these angles."""
    for one in angles:
        for sine in (False, True):
            for form, columns in _layouts(np.array(one.frequencies)):
                places = [_place(sample, columns, sine) for sample in samples]
                if places[0] is not None and all(_same(place, places[0]) for place in places):
                    dims, scale = places[0]
                    return Table(sine, dims, _attributes(columns, form, scale), one.stem.name)
    return None


def _layouts(frequencies: Any) -> list[tuple[str, Any]]:
    """Return the layouts that tables of these angles, or of half of them, may have, with the column frequencies."""
    half = len(frequencies) // 2
    if len(frequencies) % 2 == 0 and np.array_equal(frequencies[:half], frequencies[half:]):
        single = frequencies[:half]
    elif len(frequencies) % 2 == 0 and np.array_equal(frequencies[::2], frequencies[1::2]):
        single = frequencies[::2]
    else:
        single = frequencies
    return [("halves", np.tile(single, 2)), ("neighbours", np.repeat(single, 2)), ("once", single)]


def _same(place: Place | None, first: Place) -> bool:
    return place is not None and place[0] == first[0] and math.isclose(place[1], first[1], rel_tol=1e-6)


def _place(sample: Sample, columns: Any, sine: bool) -> Place | None:
    """Return the dims and the scale of a table; None if the value is another one."""
    found = _rows(sample)
    if found is None or found[1].shape[1] != len(columns):
        return None
    dims, values = found
    table = (np.sin if sine else np.cos)(np.arange(len(values))[:, None] * columns)
    largest = np.unravel_index(np.abs(table).argmax(), table.shape)
    scale = float(values[largest] / table[largest])
    scale = 1.0 if math.isclose(scale, 1, rel_tol=CLOSE) else _nice(scale, 1e-9)
    return (dims, scale) if np.allclose(values, scale * table, rtol=1e-4, atol=1e-5) else None


def _attributes(columns: Any, form: str, scale: float) -> tuple[tuple[str, Attribute], ...]:
    single = {"halves": columns[: len(columns) // 2], "neighbours": columns[::2], "once": columns}[form]
    attributes: dict[str, Attribute] = {"head_dim": 2 * len(single), **_rule(single)}
    if form != "halves":
        attributes["form"] = form
    if scale != 1:
        attributes["scale"] = scale
    return tuple(sorted(attributes.items()))


def _rule(frequencies: Any) -> Mapping[str, Attribute]:
    """Return the attributes that make these frequencies."""
    count = len(frequencies)
    exponents = np.arange(count) / count
    explicit = {"frequencies": tuple(float(f) for f in frequencies)}
    if count < 2 or abs(frequencies[0] - 1) > CLOSE or (frequencies <= 0).any():
        # One frequency of 1 has any base.
        return {"theta": 10_000.0} if count == 1 and abs(frequencies[0] - 1) <= CLOSE else explicit
    # What scales frequencies leaves the highest ones as they are.
    for index in (count - 1, 1):
        theta = _nice(float(frequencies[index]) ** (-1 / exponents[index]), 5e-5)
        plain = theta**-exponents
        if np.allclose(frequencies, plain, rtol=CLOSE, atol=0):
            return {"theta": theta}
        scaled = _scaled(frequencies, plain)
        if scaled:
            return {"theta": theta, **scaled}
    return explicit


def _scaled(frequencies: Any, plain: Any) -> Mapping[str, Attribute]:
    """Return the attributes of Llama 3.1's rule if it makes these frequencies of the plain ones; else nothing.

    Only the original length relative to the two bounds shows; the lower bound is taken to be 1.
    """
    factor = _nice(float(plain[-1] / frequencies[-1]), CLOSE)
    if factor <= 1:
        return {}
    share = (frequencies / plain - 1 / factor) / (1 - 1 / factor)
    between = np.flatnonzero((share > 1e-4) & (share < 1 - 1e-4))
    if len(between) < 2:
        return {}
    slope, start = np.polyfit(plain[between], share[between], 1)
    if start >= 0:
        return {}
    high = _nice(1 - 1 / start, 1e-3)
    original = round(2 * math.pi * slope * (high - 1))
    turns = original * plain / (2 * math.pi)
    kept = np.clip((turns - 1) / (high - 1), 0, 1)
    if not np.allclose(frequencies, plain * (kept + (1 - kept) / factor), rtol=CLOSE, atol=0):
        return {}
    return {"rope_factor": factor, "rope_low_frequency": 1.0, "rope_high_frequency": high,
            "rope_original_length": original}  # fmt: skip


def _nice(value: float, tolerance: float) -> float:
    """Return the number with the fewest digits within a relative tolerance."""
    for digits in range(1, 16):
        rounded = float(f"{value:.{digits}g}")
        if abs(rounded - value) <= tolerance * abs(value):
            return rounded
    return value
