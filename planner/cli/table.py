"""Text in columns: aligned where there is room, and one under the other on a narrow terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import wrap

GAP = "  "


def columns(rows: Iterable[Sequence[str]], align: str) -> list[str]:
    """Return one line a row, with columns aligned.

    Parameters
    ----------
    align
        `<` or `>` for every column.
    """
    listed = list(rows)
    widths = column_widths(listed)
    return [
        GAP.join(f"{cell:{a}{w}}" for cell, a, w in zip(row, align, widths, strict=True)).rstrip() for row in listed
    ]


def folded(lines: Iterable[str], width: int | None) -> list[str]:
    """Return the lines, those longer than the terminal folded with an indent."""
    if width is None:
        return list(lines)
    return [part for line in lines for part in wrap(line, width, subsequent_indent="      ", break_long_words=False,
                                                    break_on_hyphens=False)]  # fmt: skip


def column_widths(rows: Iterable[Sequence[str]]) -> list[int]:
    """Return the width of the widest cell of every column."""
    return [max(map(len, cells)) for cells in zip(*rows, strict=True)]


def named_rows(
    rows: Sequence[tuple[str, Sequence[str]]], widths: Sequence[int], align: str, *, indent: str, width: int | None
) -> list[str]:
    """Return rows of a name and figures: on one line each, or the figures below the name if that is too wide.

    Parameters
    ----------
    rows
        Name and figures of every row.
    widths
        Widths of the names and of every column of figures; several tables that share them line up.
    align
        `<` or `>` for every column of figures.
    width
        Columns of the terminal; None if lines may be as long as they like.
    """
    lines = []
    stacked = width is not None and len(indent) + sum(widths) + len(GAP) * (len(widths) - 1) > width
    for name, figures in rows:
        cells = GAP.join(f"{c:{a}{w}}" for c, a, w in zip(figures, align, widths[1:], strict=True)).rstrip()
        if stacked:
            lines += wrap(name, max(width or 0, 40), initial_indent=indent, subsequent_indent=indent + "    ",
                          break_long_words=False, break_on_hyphens=False)  # fmt: skip
            lines.append(f"{indent}  {cells}")
        else:
            lines.append(f"{indent}{name:<{widths[0]}}{GAP}{cells}")
    return lines


def bar(share: float, length: int) -> str:
    """Return a bar of `length` signs that is filled to `share`; what is over the end is marked."""
    filled = min(length, round(share * length)) if share <= 1 else length
    if share > 0 and filled == 0:
        filled = 1
    return "█" * filled + "░" * (length - filled) + ("▶" if share > 1 else "")
