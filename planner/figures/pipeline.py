"""A pipeline's timelines as Plotly figures: what every rank does when, and what it holds.

One bar a pass, a row a rank, a colour a kind of pass. Two timelines stand one above the other on one time axis. Beyond
`MAX_BARS` bars nobody can tell passes apart and browsers stall, so then each rank's time is cut into slots of equal
length, and the row is as high as the share of the slot that is work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ..core.timeline import Span, Timeline
from ..core.units import format_bytes, format_seconds
from .plain import BACKWARD, FORWARD, OTHER, OVER, PARTS, drawn

MAX_BARS = 8_000
SLOTS = 480
MAX_ROWS = 64

_KINDS: Mapping[str, tuple[str, str]] = MappingProxyType({
    "F": ("forward", FORWARD),
    "B": ("backward", BACKWARD),
    "I": ("input gradient", BACKWARD),
    "W": ("weight gradient", PARTS[2]),
    "+": ("two at once", PARTS[4]),
    "reduce": ("reduction", PARTS[5]),
    "optimizer": ("optimizer", OTHER),
})  # fmt: skip


def passes(timeline: Timeline, other: Timeline | None = None) -> dict[str, Any]:
    """Return the figure of who does what when; `other` is drawn below on the same time axis."""
    lines = [timeline] if other is None else [timeline, other]
    data: list[dict[str, Any]] = []
    for index, line in enumerate(lines):
        axis = "y" if index == 0 else "y2"
        named = {trace["name"] for trace in data if trace.get("showlegend")}
        data += _slots(line, axis) if _bars(line) > MAX_BARS else _rows(line, axis, named)
    layout: dict[str, Any] = {
        "barmode": "overlay", "bargap": 0.15, "hovermode": "closest",
        "xaxis": {"title": {"text": "seconds"}, "range": [0, max(line.makespan for line in lines)]},
        "yaxis": _ranks(timeline, [0.54, 1.0] if other else [0.0, 1.0]),
    }  # fmt: skip
    if other is not None:
        layout["xaxis"]["anchor"] = "y2"
        layout["yaxis2"] = _ranks(other, [0.0, 0.46]) | {"anchor": "x"}
    return drawn(data, layout)


def held(timeline: Timeline, capacity: float = 0.0) -> dict[str, Any]:
    """Return the figure of what every rank holds over time, with a line at the capacity of a device.

    Parameters
    ----------
    capacity
        Bytes; 0 if none is known.
    """
    data = []
    for rank, points in enumerate(timeline.memory):
        times, sizes = zip(*points, (timeline.makespan, points[-1][1]), strict=True)
        data.append({
            "type": "scatter", "mode": "lines", "name": f"rank {rank}", "x": list(times), "y": list(sizes),
            "line": {"shape": "hv", "width": 1.5, "color": PARTS[rank % len(PARTS)]},
            "customdata": [[format_seconds(t), format_bytes(s)] for t, s in zip(times, sizes, strict=True)],
            "hovertemplate": f"rank {rank} at %{{customdata[0]}}: %{{customdata[1]}}<extra></extra>",
        })  # fmt: skip
    layout: dict[str, Any] = {
        "hovermode": "closest", "xaxis": {"title": {"text": "seconds"}, "range": [0, timeline.makespan]},
        "yaxis": {"title": {"text": "bytes"}, "rangemode": "tozero", "tickformat": ".3s"},
    }  # fmt: skip
    if capacity:
        layout["shapes"] = [{
            "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": capacity, "y1": capacity,
            "line": {"color": OVER, "width": 2, "dash": "dash"},
        }]  # fmt: skip
        layout["annotations"] = [{
            "xref": "paper", "x": 1, "y": capacity, "xanchor": "right", "yanchor": "bottom", "showarrow": False,
            "text": f"capacity {format_bytes(capacity)}",
        }]  # fmt: skip
    return drawn(data, layout)


def _bars(timeline: Timeline) -> int:
    return sum(len(spans) for spans in timeline.spans)


def _kind(span: Span) -> str:
    if span.stream != "compute" or not span.actions:
        return span.stream if span.stream == "reduce" else "optimizer"
    return "+" if len(span.actions) > 1 else span.actions[0].kind


def _rows(timeline: Timeline, axis: str, named: set[str]) -> Iterator[dict[str, Any]]:
    """Yield one trace a kind of pass, so that the legend can hide it; what is `named` there already is not again."""
    found: dict[str, list[Span]] = {}
    for spans in timeline.spans:
        for span in spans:
            if span.stream not in {"forward", "backward"}:
                found.setdefault(_kind(span), []).append(span)
    for kind in (k for k in _KINDS if k in found):
        name, colour = _KINDS[kind]
        members = found[kind]
        yield {
            "type": "bar", "orientation": "h", "name": name, "legendgroup": name,
            "showlegend": name not in named, "yaxis": axis,
            "y": [s.rank for s in members], "base": [s.start for s in members],
            "x": [s.stop - s.start for s in members],
            "customdata": [[s.label, format_seconds(s.start), format_seconds(s.stop), _stage(s)] for s in members],
            "text": ["".join(str(a.microbatch) for a in s.actions[:1]) for s in members],
            "textposition": "inside", "insidetextanchor": "middle",
            "hovertemplate": "%{customdata[0]} on rank %{y}<br>%{customdata[1]} … %{customdata[2]}<extra></extra>",
            "marker": {"color": colour, "line": {"width": 0.3, "color": "rgba(255,255,255,0.6)"}},
        }  # fmt: skip


def _stage(span: Span) -> int:
    return span.actions[0].stage if span.actions else span.stage


def _slots(timeline: Timeline, axis: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each rank, or for neighbouring ranks together, as high as its share of work in a slot of time."""
    width = timeline.makespan / SLOTS
    together = -(-timeline.schedule.ranks // MAX_ROWS)
    for first in range(0, timeline.schedule.ranks, together):
        ranks = range(first, min(first + together, timeline.schedule.ranks))
        shares = [0.0] * SLOTS
        for span in (s for rank in ranks for s in timeline.spans[rank] if s.stream == "compute"):
            for slot in range(int(span.start / width), min(SLOTS - 1, int(span.stop / width)) + 1):
                inside = min(span.stop, (slot + 1) * width) - max(span.start, slot * width)
                shares[slot] += max(0.0, inside) / width / len(ranks)
        # Two corners a slot, then back along the base.
        floor = ranks[-1] + 0.45
        x = [edge for slot in range(SLOTS) for edge in (slot * width, (slot + 1) * width)]
        y = [floor - 0.9 * len(ranks) * min(1.0, shares[slot // 2]) for slot in range(2 * SLOTS)]
        name = f"rank {first}" if len(ranks) == 1 else f"ranks {first}–{ranks[-1]}"
        yield {
            "type": "scatter", "mode": "lines", "fill": "toself", "line": {"width": 0}, "fillcolor": FORWARD,
            "x": [*x, timeline.makespan, 0.0], "y": [*y, floor, floor], "yaxis": axis, "showlegend": False,
            "name": name, "hoveron": "fills", "hoverinfo": "text",
            "text": f"{name}: busy {sum(shares) / SLOTS:.1%} of the time",
        }  # fmt: skip


def _ranks(timeline: Timeline, domain: list[float]) -> dict[str, Any]:
    count = timeline.schedule.ranks
    return {
        "title": {"text": f"rank ({timeline.schedule.name})"}, "range": [count - 0.5, -0.5], "domain": domain,
        "dtick": max(1, count // 16), "tick0": 0,
    }  # fmt: skip
