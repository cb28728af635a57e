"""Where communication time goes: a bar for each collective over each group of axes."""

from __future__ import annotations

from typing import Any

from ..core.report import PHASES, CollectiveRow, Report
from ..core.units import format_bytes
from .plain import BACKWARD, FORWARD, OTHER, figure


def communication(report: Report) -> dict[str, Any]:
    """Return the figure: seconds of all collectives of a step, hidden behind computation or not."""
    groups: dict[tuple[str, tuple[str, ...]], list[CollectiveRow]] = {}
    for row in report.collectives:
        if row.axes and row.group_size > 1:
            groups.setdefault((row.kind, row.axes), []).append(row)
    ordered = sorted(groups.items(), key=lambda item: -sum(row.seconds * row.count for row in item[1]))
    names = [f"{kind} · {'·'.join(axes)}" for (kind, axes), _ in ordered]
    bars = [
        _bar(phase, colour, names, [[row for row in rows if row.phase == phase] for _, rows in ordered])
        for phase, colour in zip(PHASES, (FORWARD, BACKWARD, OTHER), strict=True)
        if phase != "update" or any(row.phase == phase for row in report.collectives)
    ]
    return figure(bars, yaxis={"title": {"text": "seconds a step"}, "rangemode": "tozero"}, xaxis={"type": "category"})


def _bar(phase: str, colour: str, names: list[str], groups: list[list[CollectiveRow]]) -> dict[str, Any]:
    return {
        "name": phase,
        "x": names,
        "y": [sum(row.seconds * row.count for row in rows) for rows in groups],
        "customdata": [
            [sum(row.count for row in rows), format_bytes(sum(row.wire_bytes * row.count for row in rows))]
            for rows in groups
        ],
        "hovertemplate": "%{x}, " + phase + "<br>%{y:.4s}s in %{customdata[0]} calls, %{customdata[1]} received"
        "<extra></extra>",
        "marker": {"color": colour},
    }
