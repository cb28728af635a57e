"""The pictures of a pipeline hold every pass once, and what their hovers say is what the timeline says."""

import json

import pytest

from planner.core.timeline import StageTimes, Timeline
from planner.figures import pipeline
from planner.figures.pipeline import SLOTS, held, passes
from planner.schedules import SCHEDULES, simulate

ONE = StageTimes(
    forward=1.0, backward_input=1.5, backward_weight=0.5, send_forward=0.1, send_backward=0.1, reduce=0.4,
    optimizer=0.2, activation=3.0, weight_gradient=1.0, resident=10.0,
)  # fmt: skip


def _timeline(name: str = "zb-h1", ranks: int = 4, micros: int = 8) -> Timeline:
    schedule = SCHEDULES[name].build(ranks, micros)
    return simulate(schedule, (ONE,) * len(schedule.placement))


def test_a_bar_for_every_pass() -> None:
    line = _timeline()
    drawn = passes(line)
    bars = sorted(
        (rank, base, base + length)
        for trace in drawn["data"]
        for rank, base, length in zip(trace["y"], trace["base"], trace["x"], strict=True)
    )
    wanted = sorted(
        (s.rank, s.start, s.stop) for spans in line.spans for s in spans if s.stream in {"compute", "reduce"}
    )
    assert bars == [pytest.approx(w) for w in wanted]
    assert {t["name"] for t in drawn["data"]} == {
        "forward", "input gradient", "weight gradient", "reduction", "optimizer",
    }  # fmt: skip
    json.dumps(drawn)


def test_two_on_one_axis() -> None:
    first, second = _timeline(), _timeline("gpipe")
    drawn = passes(first, second)
    assert drawn["layout"]["xaxis"]["range"] == [0, max(first.makespan, second.makespan)]
    assert {t["yaxis"] for t in drawn["data"]} == {"y", "y2"}
    assert "gpipe" in drawn["layout"]["yaxis2"]["title"]["text"]


def test_many_passes_are_drawn_as_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    line = _timeline(micros=64)
    monkeypatch.setattr(pipeline, "MAX_BARS", 10)
    monkeypatch.setattr(pipeline, "MAX_ROWS", 2)
    drawn = passes(line)
    assert len(drawn["data"]) == 2
    for first, trace in zip((0, 2), drawn["data"], strict=True):
        # The area above the base is the work of the two ranks.
        floor = trace["y"][-1]
        work = sum((floor - trace["y"][2 * slot]) / 0.9 for slot in range(SLOTS)) * line.makespan / SLOTS
        spans = [s for rank in (first, first + 1) for s in line.spans[rank] if s.stream == "compute"]
        assert work == pytest.approx(sum(s.stop - s.start for s in spans))


def test_memory_over_time() -> None:
    line = _timeline()
    drawn = held(line, capacity=100.0)
    assert [max(trace["y"]) for trace in drawn["data"]] == [line.peak_memory(rank) for rank in range(4)]
    assert drawn["layout"]["shapes"][0]["y0"] == 100.0
    assert "shapes" not in held(line)["layout"]
