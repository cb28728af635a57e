"""A timeline as trace events, which Perfetto and chrome://tracing open.

The format is the JSON object form of Google's "Trace Event Format": complete events (`ph: X`) with microseconds, a
process a rank, a thread a stream; counter events (`ph: C`) for the bytes held; flow arrows (`s`, `f`) for messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..core.timeline import Timeline
from .links import links

_STREAMS = ("compute", "forward", "backward", "reduce")


def trace_events(timeline: Timeline) -> dict[str, Any]:
    """Return the trace; seconds become microseconds."""
    return {"displayTimeUnit": "ms", "traceEvents": [*_names(timeline), *_spans(timeline), *_memory(timeline)]}


def _names(timeline: Timeline) -> Iterator[dict[str, Any]]:
    for rank in range(timeline.schedule.ranks):
        stages = ", ".join(map(str, timeline.schedule.stages_of(rank)))
        yield {"ph": "M", "name": "process_name", "pid": rank, "args": {"name": f"rank {rank}, stages {stages}"}}
        for thread, stream in enumerate(_STREAMS):
            yield {"ph": "M", "name": "thread_name", "pid": rank, "tid": thread, "args": {"name": stream}}


def _spans(timeline: Timeline) -> Iterator[dict[str, Any]]:
    neighbours, placement = links(timeline.schedule), timeline.schedule.placement
    for spans in timeline.spans:
        for span in spans:
            thread = _STREAMS.index(span.stream)
            start, length = span.start * 1e6, (span.stop - span.start) * 1e6
            stage = span.actions[0].stage if span.actions else span.stage
            yield {
                "ph": "X", "name": span.label, "cat": span.stream, "pid": span.rank, "tid": thread, "ts": start,
                "dur": length, "args": {"stage": stage},
            }  # fmt: skip
            if span.stream in {"forward", "backward"}:
                reader = neighbours.reader(span.actions[0])
                if reader is not None:
                    arrow = {"name": span.stream, "cat": "message", "id": f"{span.label}{span.stream}"}
                    yield arrow | {"ph": "s", "pid": span.rank, "tid": thread, "ts": start}
                    yield arrow | {"ph": "f", "bp": "e", "pid": placement[reader], "tid": 0, "ts": start + length}


def _memory(timeline: Timeline) -> Iterator[dict[str, Any]]:
    for rank, points in enumerate(timeline.memory):
        for time, size in points:
            yield {"ph": "C", "name": "held", "pid": rank, "ts": time * 1e6, "args": {"bytes": size}}
