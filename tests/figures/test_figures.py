"""Covers: planner.figures. A figure shows the report's numbers, all of them, and has no theme."""

from __future__ import annotations

import json
from functools import cache

import pytest

import planner
from planner.core.report import Report
from planner.figures import FIGURES


@cache
def report(preset: str) -> Report:
    graph = planner.load_model("llama-tiny")
    plan = planner.Plan.new(graph, cluster="1x8-h100-sxm", mesh={"dp": 2, "tp": 4}, global_batch=8, seq=256)
    if preset:
        plan = plan.preset(preset, axis="tp")
    return planner.evaluate(plan)


@pytest.mark.parametrize("preset", ["", "megatron", "zero3"])
@pytest.mark.parametrize("name", FIGURES)
def test_plain_values_without_a_theme(name: str, preset: str) -> None:
    figure = FIGURES[name].draw(report(preset))
    assert json.loads(json.dumps(figure, allow_nan=False)) == figure
    assert set(figure) == {"data", "layout"}
    assert not {"template", "paper_bgcolor", "plot_bgcolor", "font", "width"} & set(figure["layout"])
    assert all(trace["type"] == "bar" for trace in figure["data"])


def test_step_adds_up_to_the_step_time() -> None:
    found = report("megatron")
    figure = FIGURES["step"].draw(found)
    assert sum(trace["x"][0] for trace in figure["data"]) == pytest.approx(found.step_time.value)
    error = figure["data"][-1]["error_x"]
    total = found.step_time.value
    assert (total - error["arrayminus"][0], total + error["array"][0]) == pytest.approx(found.interval)


def test_memory_adds_up_and_shows_the_capacity() -> None:
    found = report("megatron")
    figure = FIGURES["memory"].draw(found)
    assert sum(trace["x"][0] for trace in figure["data"]) == pytest.approx(found.memory.value)
    assert figure["layout"]["shapes"][0]["x0"] == found.capacity_bytes


def test_communication_has_every_collective_once() -> None:
    found = report("megatron")
    figure = FIGURES["communication"].draw(found)
    for trace in figure["data"]:
        rows = [row for row in found.collectives if row.phase == trace["name"] and row.group_size > 1]
        assert sum(trace["y"]) == pytest.approx(sum(row.seconds * row.count for row in rows))
    assert figure["data"][0]["x"] == figure["data"][1]["x"]
    assert any(name == "all_reduce · tp" for name in figure["data"][0]["x"])
