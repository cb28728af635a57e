"""Covers: routes.pipeline, schemas.pipeline, the changes `pipeline` and `boundary`."""

from __future__ import annotations

from typing import Any

import planner
from planner import compose

from .conftest import Caller

MESH = [{"name": "pp", "size": 2}, {"name": "tp", "size": 4}]
CUT = {"type": "pipeline", "axis": "pp", "schedule": "1f1b"}


def _cut(client: Caller, **more: Any) -> dict[str, Any]:
    state = client.new(mesh=MESH, microbatches=4, presets=[{"name": "megatron", "axes": {"axis": ["tp"]}}])
    return client.ok(client.edit(state, CUT | more))


def test_a_pipeline_is_cut_moved_and_taken_back(client: Caller) -> None:
    state = _cut(client)
    assert state["pipeline"] == {"axis": "pp", "schedule": "1f1b", "per_rank": 0, "stages": []}
    summary = state["summary"]
    parts = [summary[f"{name}_s"] for name in ("compute", "communication", "optimizer", "bubble")]
    assert abs(sum(parts) - summary["step_time_s"]) <= 1e-9 * summary["step_time_s"]
    found = client.ok(client.get(f"/api/v1/plans/{state['id']}/pipeline"))
    cuts, units = found["view"]["cuts"], found["view"]["units"]
    assert found["view"]["balanced"]
    assert (cuts[0], cuts[-1]) == (0, len(units))
    moved = client.ok(client.edit(state, {"type": "boundary", "stage": 1, "unit": cuts[1] - 1}))
    assert moved["pipeline"]["stages"]
    after = client.ok(client.get(f"/api/v1/plans/{state['id']}/pipeline"))
    assert after["view"]["cuts"] == [0, cuts[1] - 1, len(units)]
    assert client.step(moved, "undo")["pipeline"] == state["pipeline"]


def test_numbers_are_those_of_the_planner(client: Caller) -> None:
    state = _cut(client)
    found = client.ok(client.get(f"/api/v1/plans/{state['id']}/pipeline", params={"against": "gpipe"}))
    plan = planner.Plan.new(
        planner.load_model("llama-tiny"), cluster="1x8-h100-sxm", mesh={"pp": 2, "tp": 4}, global_batch=8, seq=256,
        microbatches=4,
    ).preset("megatron", axis="tp")  # fmt: skip
    for told, schedule in zip(found["numbers"], ("1f1b", "gpipe"), strict=True):
        report = compose.evaluate(plan.pipelined("pp", schedule))
        assert report.pipeline is not None
        assert told["schedule"] == schedule
        assert told["step_time_s"] == report.step_time.value
        assert told["rank_memory_bytes"] == list(report.pipeline.rank_memory)
        assert told["bubble"] == dict(report.pipeline.bubbles)
    assert len(found["held"]) == 2
    assert found["passes"]["data"]
    # Ids of the view, so that a stage can be shown in the graph.
    ids = {each["id"] for each in (*state["view"]["nodes"], *state["view"]["groups"])}
    assert all(stage["nodes"] and ids.issuperset(stage["nodes"]) for stage in found["stages"])


def test_what_is_taken_away(client: Caller) -> None:
    state = _cut(client)
    at = f"/api/v1/plans/{state['id']}/pipeline"
    assert client.get(f"{at}/schedule.csv").text.startswith("0F0,")
    assert client.ok(client.get(f"{at}/trace"))["traceEvents"]
    page = client.get(f"{at}/page")
    assert page.headers["content-type"].startswith("text/html")
    assert "Plotly" in page.text
    assert 'src="http' not in page.text


def test_refusals(client: Caller) -> None:
    state = client.new()
    client.problem(client.get(f"/api/v1/plans/{state['id']}/pipeline"), 422, "pipeline.none")
    client.problem(client.edit(state, CUT | {"axis": "dp"}), 422, "pipeline.axis-used")
    client.problem(client.edit(state, {"type": "boundary", "stage": 1, "unit": 1}), 422, "pipeline.boundary")
    cut = _cut(client)
    client.problem(client.edit(cut, CUT | {"schedule": "no-such"}), 422, "schedule.unknown")
    client.problem(client.edit(cut, {"type": "boundary", "stage": 1, "unit": 0}), 422, "pipeline.boundary")
    empty = [{"target": "layers.*", "stage": 1}, {"target": "embed_tokens", "stage": 1}]
    client.problem(client.edit(cut, CUT | {"stages": empty}), 422, "pipeline.stage-empty")
