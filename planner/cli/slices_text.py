"""Which rank holds which part of a tensor, drawn with text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.slices import Ranges
from ..simulate import slices
from .door import heading
from .table import columns

T = TypeVar("T")
# What is drawn of more rows, columns or parts than fit: the first ones and the last one.
_FIRST, _MOST = 9, 16
_MOST_RANKS = 4096


def slices_text(title: str, layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> list[str]:
    """Return a picture of the parts: a grid where one or two dims are cut, else a list.

    Parameters
    ----------
    title
        What the picture is of, e.g. `before`.
    """
    head = f"{heading(title)}  {layout}"
    if mesh.device_count > _MOST_RANKS:
        return [f"{head}: {mesh.device_count:,} ranks are too many to draw"]
    parts: dict[Ranges, list[int]] = {}
    idle = []
    for rank, part in enumerate(slices(layout, shape, mesh)):
        if all(start < stop for start, stop in part):
            parts.setdefault(part, []).append(rank)
        else:
            idle.append(rank)
    cut = [dim for dim in range(len(shape)) if len({part[dim] for part in parts}) > 1]
    lines = [f"{head}: {_summary(parts, layout, mesh)}"]
    if idle:
        lines.append(f"  nothing is left for {_many(idle)}")
    if not parts:
        return lines
    if len(cut) > 2:
        return lines + _list(parts)
    if len(cut) == 1:
        # A cut of the last dim alone is drawn from left to right, any other from top to bottom.
        cut = [0, cut[0]] if 0 < cut[0] == len(shape) - 1 else [cut[0], -1]
    return lines + (_grid(parts, cut[0], cut[1]) if cut else [f"  {_many(parts[next(iter(parts))])}"])


def ranks_text(ranks: Sequence[int]) -> str:
    """Return ranks in short: `3`, `0-7`, `0,8…56`, `0,1,4,5`, `0,1,6…(12)`."""
    steps = {b - a for a, b in pairwise(ranks)}
    if len(ranks) > 2 and len(steps) == 1:
        return f"{ranks[0]}-{ranks[-1]}" if steps == {1} else f"{ranks[0]},{ranks[1]}…{ranks[-1]}"
    if len(ranks) > 4:
        return f"{','.join(map(str, ranks[:3]))}…({len(ranks)})"
    return ",".join(map(str, ranks))


def _summary(parts: dict[Ranges, list[int]], layout: Layout, mesh: DeviceMesh) -> str:
    sizes = {tuple(stop - start for start, stop in part) for part in parts}
    shown = "×".join(map(str, next(iter(sizes)))) or "a scalar" if len(sizes) == 1 else "several sizes"
    what = f"{len(parts)} parts of {shown}" if len(parts) > 1 else f"one part, {shown}"
    each = mesh.device_count // mesh.size_of(axis for axes in layout.dims for axis in axes)
    summands = mesh.size_of(layout.partial)
    if summands == 1:
        return f"{what}, each on {each} rank{'' if each == 1 else 's'}"
    due = layout.reduce if layout.reduce in ("sum", "mean") else f"{layout.reduce}imum"
    copies = f", each on {each // summands} ranks" if each > summands else ""
    return f"{what}, the {due} over {summands} ranks still due{copies}"


def _grid(parts: dict[Ranges, list[int]], down: int, right: int) -> list[str]:
    rows = sorted({part[down] for part in parts})
    across = sorted({part[right] for part in parts}) if right >= 0 else []
    cells = {(part[down], part[right] if right >= 0 else None): ranks for part, ranks in parts.items()}
    corner = f"dim {down} ↓" + (f", dim {right} →" if right >= 0 else "")
    head = [corner, *(["…" if c is None else str(c[0]) for c in _some(across)] if across else ["ranks"])]
    table = [head]
    for row in _some(rows):
        kept: list[tuple[int, int] | None] = _some(across) if across else [None]
        if row is None:
            table.append(["…", *["…"] * len(kept)])
        else:
            found = ("…" if across and c is None else ranks_text(cells.get((row, c), [])) for c in kept)
            table.append([str(row[0]), *found])
    return [f"  {line}" for line in columns(table, ">" * len(head))]


def _list(parts: dict[Ranges, list[int]]) -> list[str]:
    rows = []
    for part in _some(sorted(parts)):
        if part is None:
            rows.append(("…", ""))
        else:
            rows.append((f"[{', '.join(f'{start}:{stop}' for start, stop in part)}]", ranks_text(parts[part])))
    return [f"  {line}" for line in columns([("part", "ranks"), *rows], "<>")]


def _some(items: Sequence[T]) -> list[T | None]:
    return list(items) if len(items) <= _MOST else [*items[:_FIRST], None, items[-1]]


def _many(ranks: Sequence[int]) -> str:
    return f"rank{'' if len(ranks) == 1 else 's'} {ranks_text(ranks)}"
