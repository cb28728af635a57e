"""The text of a layout: `[dp, tp·cp, -] +ep`. Axes are joined by `·`, or by `+` on plain keyboards."""

from __future__ import annotations

from .mesh import Axes
from .scan import Scanner

_NAME = r"[A-Za-z_]\w*"
_JOIN = r"[·+]"


def read(text: str) -> tuple[tuple[Axes, ...], Axes, str]:
    """Return dims, partial axes and reduction of a text.

    Raises
    ------
    LayoutError
        `layout.syntax`, with its place.
    """
    scan = Scanner(text, "a layout", code="layout.syntax", hint="Write e.g. [dp, tp·cp, -] +ep.")
    scan.need(r"\[", "'['")
    dims: list[Axes] = []
    if scan.take(r"\]") is None:
        dims.append(_dim(scan))
        while scan.take(",") is not None:
            dims.append(_dim(scan))
        scan.need(r"\]", "',', '·' or ']'" if dims[-1] else "',' or ']'")
    partial: Axes = ()
    reduce = "sum"
    if scan.take(r"\+") is not None:
        partial = _axes(scan, "an axis name")
    elif (word := scan.take(r"[a-z]+")) is not None:
        reduce = word
        scan.need(r"\(", "'('")
        partial = _axes(scan, "an axis name")
        scan.need(r"\)", "'·' or ')'")
    scan.end("'·' or the end" if partial else "'+', a reduction such as max(dp), or the end")
    return tuple(dims), partial, reduce


def _dim(scan: Scanner) -> Axes:
    return () if scan.take("-") is not None else _axes(scan, "'-' or an axis name")


def _axes(scan: Scanner, expected: str) -> Axes:
    names = [scan.need(_NAME, expected)]
    while scan.take(_JOIN) is not None:
        names.append(scan.need(_NAME, "an axis name"))
    return tuple(names)
