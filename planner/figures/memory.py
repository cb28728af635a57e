"""What fills a device: one stacked bar, with a line at the capacity."""

from __future__ import annotations

from typing import Any

from ..core.report import Report
from ..core.units import format_bytes
from .plain import OVER, PARTS, figure


def memory(report: Report) -> dict[str, Any]:
    """Return the figure."""
    bars = [
        {
            "name": part.name,
            "orientation": "h",
            "y": ["fullest device"],
            "x": [part.value],
            "customdata": [format_bytes(part.value)],
            "hovertemplate": "%{fullData.name}: %{customdata}<extra></extra>",
            "marker": {"color": PARTS[index % len(PARTS)]},
        }
        for index, part in enumerate(report.memory.children)
    ]
    capacity = report.capacity_bytes
    line = {
        "type": "line", "xref": "x", "yref": "paper", "x0": capacity, "x1": capacity, "y0": 0, "y1": 1,
        "line": {"color": OVER, "width": 2, "dash": "dash"},
    }  # fmt: skip
    note = {
        "xref": "x", "yref": "paper", "x": capacity, "y": 1, "yanchor": "bottom", "showarrow": False,
        "text": f"capacity {format_bytes(capacity)}",
    }  # fmt: skip
    longest = max(capacity, report.memory.value) * 1.05
    return figure(
        bars, shapes=[line], annotations=[note],
        xaxis={"title": {"text": "bytes"}, "range": [0, longest], "tickformat": ".3s"}, yaxis={"showticklabels": False},
    )  # fmt: skip
