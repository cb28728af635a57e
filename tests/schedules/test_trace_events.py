"""Trace events hold every span once, at its time, and an arrow for every message."""

import json

import pytest

from planner.core.timeline import StageTimes
from planner.schedules import SCHEDULES, simulate
from planner.schedules.trace_events import trace_events


@pytest.mark.parametrize("name", ["1f1b", "zb-v", "dualpipe"])
def test_every_span_once(name: str) -> None:
    one = StageTimes(forward=1, backward_input=1, backward_weight=1, send_forward=0.5, send_backward=0.5, activation=2)
    schedule = SCHEDULES[name].build(4, 8)
    line = simulate(schedule, (one,) * len(schedule.placement))
    events = json.loads(json.dumps(trace_events(line)))["traceEvents"]
    spans = [s for each in line.spans for s in each]
    found = sorted((e["pid"], e["ts"], e["dur"], e["name"]) for e in events if e["ph"] == "X")
    assert found == sorted((s.rank, s.start * 1e6, (s.stop - s.start) * 1e6, s.label) for s in spans)
    messages = [s for s in spans if s.stream in {"forward", "backward"}]
    starts = {e["id"]: e for e in events if e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e["ph"] == "f"}
    assert len(starts) == len(ends) == len(messages) > 0
    assert all(abs(starts[i]["pid"] - ends[i]["pid"]) in {1, 3} for i in starts)
    peaks = {rank: max(e["args"]["bytes"] for e in events if e["ph"] == "C" and e["pid"] == rank) for rank in range(4)}
    assert peaks == {rank: line.peak_memory(rank) for rank in range(4)}
