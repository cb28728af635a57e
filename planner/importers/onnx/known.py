"""Operators on numbers that are known: shapes, their parts and what is computed of them. Nothing of this is a call."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from ...core.symbol import Polynomial, Size, quotient
from .model import DTYPES, OnnxTensor
from .site import MAX_KNOWN, Known, Number, Site

_MAX_TERMS, _MAX_DEGREE, _LARGEST = 64, 12, 1 << 63


def known_result(at: Site) -> Known | None:
    """Return what an operator gives if all that it reads is known; None if it has to become a call."""
    row = KNOWN.get(at.node.op)
    return None if row is None else row(at)


def _shape(at: Site) -> Known:
    shape = at.shape(0)
    rank = len(shape)
    start, end = (max(0, min(rank, n + rank if n < 0 else n))
                  for n in (at.integer("start"), at.integer("end", rank)))  # fmt: skip
    return Known(values=shape[start:end], rank=1, dtype="int64")


def _size(at: Site) -> Known:
    total: Size = 1
    for size in at.shape(0):
        total = total * size
    return Known(values=(total,), rank=0, dtype="int64")


def _constant(at: Site) -> Known | None:
    """Take a constant into the tensors of the file; short ones are known as well."""
    value = at.node.attributes.get("value")
    name = at.node.outputs[0]
    if isinstance(value, OnnxTensor):
        at.all.tensors[name] = OnnxTensor(name=name, dtype=value.dtype, dims=value.dims, values=value.values)
        return known_tensor(value)
    for key, dtype in (("value_int", "int64"), ("value_ints", "int64"), ("value_float", "float32"),
                       ("value_floats", "float32")):  # fmt: skip
        plain = at.node.attributes.get(key)
        if isinstance(plain, int | float):
            return Known(values=(plain,), rank=0, dtype=dtype)
        if isinstance(plain, tuple) and len(plain) <= MAX_KNOWN:
            return Known(values=tuple(v for v in plain if not isinstance(v, str)), rank=1, dtype=dtype)
    at.refuse("whose value is no number")


def known_tensor(tensor: OnnxTensor) -> Known | None:
    """Return what is known of a constant: a number, or a short list of integers."""
    if tensor.values is None or len(tensor.dims) > 1 or len(tensor.values) > MAX_KNOWN:
        return None
    if len(tensor.values) > 1 and isinstance(tensor.values[0], float):
        return None
    return Known(values=tensor.values, rank=len(tensor.dims), dtype=tensor.dtype)


def _inputs(at: Site) -> list[Known] | None:
    known = [at.known(place) for place in range(len(at.node.inputs)) if at.given(place)]
    found = [one for one in known if one is not None]
    return found if len(found) == len(known) else None


def _concat(at: Site) -> Known | None:
    parts = _inputs(at)
    if parts is None or any(part.rank != 1 for part in parts):
        return None
    values = tuple(value for part in parts for value in part.values)
    return Known(values=values, rank=1, dtype=parts[0].dtype) if len(values) <= MAX_KNOWN else None


def _gather(at: Site) -> Known | None:
    parts = _inputs(at)
    if parts is None or parts[0].rank != 1:
        return None
    values, indices = parts[0].values, at.integers(1)
    if not all(-len(values) <= i < len(values) for i in indices):
        at.refuse(f"which picks {list(indices)[:4]} of {len(values)} numbers")
    return Known(values=tuple(values[i] for i in indices), rank=parts[1].rank, dtype=parts[0].dtype)


def _slice(at: Site) -> Known | None:
    parts = _inputs(at)
    if parts is None or parts[0].rank != 1:
        return None
    start, stop = at.integers(1)[:1], at.integers(2)[:1]
    step = at.integers(4)[:1] if at.given(4) else (1,)
    if not (start and stop and step and step[0]):
        return None
    return Known(values=parts[0].values[start[0] : stop[0] : step[0]], rank=1, dtype=parts[0].dtype)


def _ranked(rank: int) -> Callable[[Site], Known | None]:
    def row(at: Site) -> Known | None:
        known = at.known(0)
        if known is None or (rank == 0 and len(known.values) != 1) or (rank == 1 and known.rank != 0):
            return None
        return Known(values=known.values, rank=rank, dtype=known.dtype)

    return row


def _reshape(at: Site) -> Known | None:
    known = at.known(0)
    if known is None or at.known(1) is None:
        return None
    shape = at.integers(1)
    if len(shape) > 1 or (shape and shape[0] not in {-1, len(known.values)}):
        return None
    return Known(values=known.values, rank=len(shape), dtype=known.dtype)


def _cast(at: Site) -> Known | None:
    known = at.known(0)
    if known is None:
        return None
    dtype = DTYPES.get(at.integer("to"), "")
    if dtype.startswith(("int", "uint")):
        values: tuple[Number, ...] = tuple(v if isinstance(v, Polynomial) else _truncated(v) for v in known.values)
    elif dtype == "bool":
        values = tuple(True if isinstance(v, Polynomial) else bool(v) for v in known.values)
    else:
        # A size stays a size: it may be a step or an end further on.
        values = tuple(v if isinstance(v, Polynomial) else float(v) for v in known.values)
    return Known(values=values, rank=known.rank, dtype=dtype)


def _truncated(value: float) -> int:
    return int(value) if math.isfinite(value) else 0


def _filled(at: Site) -> Known | None:
    known = at.known(0)
    value = at.node.attributes.get("value")
    if known is None or len(known.values) != 1 or not isinstance(known.values[0], int):
        return None
    count = known.values[0]
    single = value.values[0] if isinstance(value, OnnxTensor) and value.values else 0.0
    if not 0 <= count <= 64 or isinstance(single, float):
        return None
    return Known(values=(single,) * count, rank=1, dtype=value.dtype if isinstance(value, OnnxTensor) else "float32")


def _arithmetic(function: Callable[[Any, Any], Number | None]) -> Callable[[Site], Known | None]:
    def row(at: Site) -> Known | None:
        parts = _inputs(at)
        if parts is None or len(parts) != 2:
            return None
        left, right = (part.values for part in parts)
        if len(left) != len(right) and 1 not in {len(left), len(right)}:
            return None
        count = max(len(left), len(right))
        pairs = zip(left * (count if len(left) == 1 else 1), right * (count if len(right) == 1 else 1), strict=True)
        values = [_computed(function, a, b) for a, b in pairs]
        found = tuple(value for value in values if value is not None)
        if len(found) < len(values):
            return None
        return Known(values=found, rank=max(part.rank for part in parts), dtype=parts[0].dtype)

    return row


def _divide(a: Number, b: Number) -> Number | None:
    if isinstance(a, Polynomial) or isinstance(b, Polynomial):
        return quotient(a, b) if isinstance(a, int | Polynomial) and isinstance(b, int | Polynomial) and b else None
    if b == 0:
        return None
    if isinstance(a, float) or isinstance(b, float):
        return a / b
    # As C does it: towards zero.
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _alike(value: Number, other: Number) -> Any:
    """Return a number as one that can be computed with the other: beside a size, a whole number is an integer."""
    if isinstance(other, Polynomial) and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _computed(function: Callable[[Any, Any], Number | None], a: Number, b: Number) -> Number | None:
    left, right = _alike(a, b), _alike(b, a)
    if (isinstance(left, Polynomial) and isinstance(right, float)) or (
        isinstance(right, Polynomial) and isinstance(left, float)
    ):
        return None
    try:
        value = function(left, right)
    except OverflowError:
        return None
    if isinstance(value, Polynomial):
        wild = len(value.terms) > _MAX_TERMS or any(len(n) > _MAX_DEGREE or abs(k) > _LARGEST for n, k in value.terms)
        return None if wild else value
    return None if isinstance(value, int) and abs(value) > _LARGEST else value


def _range(at: Site) -> Known | None:
    parts = _inputs(at)
    if parts is None or parts[0].dtype != "int64":
        return None
    start, stop, step = (part.number for part in parts)
    if not (isinstance(start, int) and isinstance(stop, int) and isinstance(step, int) and step):
        return None
    values = range(start, stop, step)
    return Known(values=tuple(values), rank=1, dtype="int64") if len(values) <= 64 else None


def _same(at: Site) -> Known | None:
    return at.known(0)


KNOWN: Mapping[str, Callable[[Site], Known | None]] = MappingProxyType({
    "Shape": _shape, "Size": _size, "Constant": _constant, "Concat": _concat, "Gather": _gather, "Slice": _slice,
    "Squeeze": _ranked(0), "Unsqueeze": _ranked(1), "Reshape": _reshape, "Cast": _cast, "ConstantOfShape": _filled,
    "Add": _arithmetic(operator.add), "Sub": _arithmetic(lambda a, b: a + b * -1), "Mul": _arithmetic(operator.mul),
    "Div": _arithmetic(_divide), "Range": _range, "Identity": _same,
})  # fmt: skip
"""Operators that shapes are computed with."""
