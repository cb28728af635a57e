"""The table of collectives that a person reads: by scope and phase, parameters that are treated alike in one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..collectives import is_local
from ..core.report import OPTIMIZER, STORAGE, CollectiveRow
from ..core.units import format_bytes, format_seconds
from .door import heading
from .table import column_widths, named_rows

_ALIGN = "<<>>>"
_HEAD = ("collective", "over (ranks)", "bytes each", "times", "total")
_PHASE, _ROW = "  ", "    "


@dataclass(frozen=True, slots=True)
class _Line:
    scope: str
    phase: str
    name: str
    figures: tuple[str, ...]


def collectives_text(rows: Sequence[CollectiveRow], width: int | None, *, each: bool = False) -> list[str]:
    """Return the lines of the table.

    Parameters
    ----------
    width
        Columns of the terminal; None if names are to stay whole on one line.
    each
        One line for every collective, instead of one for all parameters that are treated alike.
    """
    if not rows:
        return [heading("collectives"), f"{_PHASE}none: no rank needs anything from another"]
    groups = [[row] for row in rows] if each else _grouped(rows)
    lines = [_Line(g[0].scope, g[0].phase, _name(g), _figures(g)) for g in groups]
    widths = [max(len(line.name) for line in lines), *column_widths([_HEAD, *(line.figures for line in lines)])]
    text = named_rows([("collectives", _HEAD)], widths, _ALIGN, indent=_ROW, width=width)
    text[0] = text[0].replace(f"{_ROW}collectives", heading("collectives") + _ROW, 1).rstrip()
    for scope in dict.fromkeys(line.scope for line in lines):
        text.append(_scope_title(scope))
        for phase in dict.fromkeys(line.phase for line in lines if line.scope == scope):
            chosen = [(line.name, line.figures) for line in lines if (line.scope, line.phase) == (scope, phase)]
            text += [f"{_PHASE}{phase}", *named_rows(chosen, widths, _ALIGN, indent=_ROW, width=width)]
    return text


def layers_of(scope: str) -> int:
    """Return how many layers a scope's title stands for."""
    match = re.search(r"\.(\d+)-(\d+)$", scope)
    return int(match[2]) - int(match[1]) + 1 if match else 1


def _grouped(rows: Iterable[CollectiveRow]) -> list[list[CollectiveRow]]:
    """Put together the parameters of a scope that one kind of collective moves over the same axes."""
    groups: dict[tuple[object, ...], list[CollectiveRow]] = {}
    for position, row in enumerate(rows):
        alike = (row.scope, row.phase, _what(row), row.kind, row.axes, row.count, row.gradients)
        groups.setdefault(alike if row.parameter else (position,), []).append(row)
    return list(groups.values())


def _scope_title(scope: str) -> str:
    if not scope:
        return "outside the layers"
    count = layers_of(scope)
    return f"{scope}  ({count} layers alike)" if count > 1 else scope


def _name(group: Sequence[CollectiveRow]) -> str:
    first, last = group[0], group[-1]
    if first.gradients:
        return f"bucket of {len(first.gradients)}: {_ends([_short(name, first.scope) for name in first.gradients])}"
    if first.parameter:
        one, several = _what(first)
        if len(group) == 1:
            return f"{one} {_short(first.value, first.scope)}"
        ends = _ends([_short(row.value, row.scope) for row in (first, *group[2:], last)])
        return f"{several} {len(group)} parameters: {ends}"
    readers = _readers(first)
    value = _short(first.value, first.scope)
    return f"{value} → {readers}" if first.phase == "forward" else f"gradient of {value} ← {readers}"


def _ends(names: Sequence[str]) -> str:
    """Return the first and the last of several names."""
    return ", ".join(names) if len(names) < 3 else f"{names[0]} … {names[-1]}"


def _what(row: CollectiveRow) -> tuple[str, str]:
    """Say what is done with a parameter, or with several."""
    if row.readers == (OPTIMIZER,):
        return "move gradient of", "move gradients of"
    if row.readers == (STORAGE,):
        return "new values of", "new values of"
    if row.again or row.phase == "forward":
        return ("fetch again",) * 2 if row.again else ("fetch",) * 2
    return "gradient of", "gradients of"


def _readers(row: CollectiveRow) -> str:
    """Return the readers, those of one module without repeating it."""
    names, module = [], ""
    for reader in dict.fromkeys(row.readers):
        short = "next layer" if row.scope and reader == row.scope else _short(reader, row.scope)
        parent = short.rpartition(".")[0]
        names.append(short.removeprefix(f"{module}.") if module and parent == module else short)
        module = parent
    return ", ".join(names)


def _short(name: str, scope: str) -> str:
    """Return a name without the path of the layer that it is in."""
    path = scope.rpartition(".")[0]
    return re.sub(rf"^{re.escape(path)}\.\*[./]", "", name) if path else name


def _figures(group: Sequence[CollectiveRow]) -> tuple[str, ...]:
    first = group[0]
    kind = first.kind.replace("_", "-")
    sizes = [row.payload_bytes for row in group]
    least, most = format_bytes(min(sizes)), format_bytes(max(sizes))
    return (
        f"{kind} (local)" if is_local(first.kind) else kind,
        f"{'·'.join(first.axes)} ({first.group_size})",
        most if least == most else f"{least} … {most}",
        f"{first.count}" if len(group) == 1 else f"{len(group)} × {first.count}",
        format_seconds(sum(row.seconds * row.count for row in group)),
    )
