"""What the step time is made of: one stacked bar, with the interval as an error bar of the whole."""

from __future__ import annotations

from typing import Any

from ..core.report import Report
from ..core.units import format_seconds
from .plain import PARTS, figure


def step(report: Report) -> dict[str, Any]:
    """Return the figure."""
    lower, upper = report.interval
    bars: list[dict[str, Any]] = [
        {
            "name": part.name,
            "orientation": "h",
            "y": ["step"],
            "x": [part.value],
            "customdata": [format_seconds(part.value)],
            "hovertemplate": "%{fullData.name}: %{customdata}<extra></extra>",
            "marker": {"color": PARTS[index % len(PARTS)]},
        }
        for index, part in enumerate(report.step_time.children)
    ]
    total = report.step_time.value
    # An empty bar after the others carries the interval: its end is the step time.
    bars.append(
        {
            "name": "interval",
            "orientation": "h",
            "y": ["step"],
            "x": [0.0],
            "error_x": {"type": "data", "symmetric": False, "array": [upper - total], "arrayminus": [total - lower]},
            "hovertemplate": f"{format_seconds(total)}, between {format_seconds(lower)} and {format_seconds(upper)}"
            "<extra></extra>",
            "showlegend": False,
        }
    )
    return figure(bars, xaxis={"title": {"text": "seconds"}, "rangemode": "tozero"}, yaxis={"showticklabels": False})
