"""New tensors of one value, of a range, or of ones at given places."""

from __future__ import annotations

from collections.abc import Mapping

from ....core.graph import Attribute
from ....core.symbol import Polynomial
from .elements import scaled, shifted
from .site import Held, Number, Row, Site, UnloweredError, text


def _filled(at: Site, value: int | float | bool | None) -> Held:
    if value is None:
        raise UnloweredError("what it is filled with is computed")
    made = at.made
    return at.full(made.shape, value, made.dtype) if made.shape else Number(value=value, dtype=made.dtype)


def _constant(value: int) -> Row:
    return lambda at: _filled(at, value)


def _full(position: int) -> Row:
    def row(at: Site) -> Held:
        value = at.number(position, "fill_value")
        if value is None and at.made.shape:
            # What it is filled with is a tensor without dims.
            x = at.cast(at.x(position, "fill_value"), at.made.dtype)
            return at.expanded(at.unsqueezed(x, *range(len(at.made.shape))), at.made.shape)
        return _filled(at, value)

    return row


def _scalar(at: Site) -> Held:
    return _filled(at, at.number(0, "s"))


def _range(at: Site) -> str:
    """Start at a number, or at a size, and take steps."""
    count = len(at.call.arguments)
    start = at.argument(0, "start", 0) if count > 1 else 0
    step = at.argument(2, "step", 1) if count > 2 else 1
    if isinstance(start, Polynomial):
        raise UnloweredError(f"its range starts at {start}, which depends on symbols")
    assert isinstance(start, int | float)
    assert isinstance(step, int | float)
    sizes = text(at.made.shape)
    if isinstance(start, int) and isinstance(step, int):
        usual: dict[str, Attribute] = {"start": 0, "step": 1, "dtype": "int64"}
        given: dict[str, Attribute] = {"start": start, "step": step, "dtype": at.made.dtype}
        return at.node("arange", sizes=sizes, **{key: value for key, value in given.items() if value != usual[key]})
    return shifted(at, scaled(at, at.node("arange", sizes=sizes, dtype=at.made.dtype), step), start)


def _linspace(at: Site) -> str:
    start, end = at.real(0, "start", 0.0), at.real(1, "end", 0.0)
    count = at.integer(2, "steps")
    step = (end - start) / (count - 1) if count > 1 else 0.0
    return shifted(at, scaled(at, at.node("arange", sizes=text(at.made.shape), dtype=at.made.dtype), step), start)


def _eye(at: Site) -> str:
    rows, columns = at.made.shape
    down, along = (at.node("arange", sizes=text((size,))) for size in (rows, columns))
    equal = at.node("compare", at.unsqueezed(down, 1), at.unsqueezed(along, 0), relation="eq")
    return at.cast(equal, at.made.dtype)


def _one_hot(at: Site) -> str:
    return at.node("one_hot", at.x(0, "self"), classes=at.integer(1, "num_classes"))


CREATION: Mapping[str, Row] = {
    **{f"aten.{name}.default": _constant(0)
       for name in ("zeros", "zeros_like", "new_zeros", "empty_like", "new_empty")},
    "aten.empty.memory_format": _constant(0),
    **{f"aten.{name}.default": _constant(1) for name in ("ones", "ones_like", "new_ones")},
    "aten.full.default": _full(1),
    "aten.full_like.default": _full(1),
    "aten.new_full.default": _full(2),
    "aten.scalar_tensor.default": _scalar,
    **dict.fromkeys(("aten.arange.default", "aten.arange.start", "aten.arange.start_step"), _range),
    "aten.linspace.default": _linspace,
    **dict.fromkeys(("aten.eye.default", "aten.eye.m"), _eye),
    "aten.one_hot.default": _one_hot,
}  # fmt: skip
"""Calls that make tensors from no others; what is not yet written to (`empty`) is zero."""
