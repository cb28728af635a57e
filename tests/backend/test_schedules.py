"""Schedules over HTTP say what `shardwright schedule` says."""

import json

from fastapi.testclient import TestClient

from planner.schedules import SCHEDULES, EqualParts, bubble, equal_parts, read_csv


def test_every_schedule_is_listed(client: TestClient) -> None:
    entries = client.get("/api/v1/schedules").json()
    assert [e["name"] for e in entries] == [*SCHEDULES, "automatic"]


def test_two_schedules_on_one_axis(client: TestClient) -> None:
    asked = {"name": "1f1b", "ranks": 4, "microbatches": 8, "send": 0.1, "against": "zb-v"}
    answer = client.post("/api/v1/schedules", json=asked).json()
    first, second = answer["schedules"]
    line = equal_parts(EqualParts(name="1f1b", ranks=4, microbatches=8, per_rank=0, forward=1.0, backward_input=1.0,
                                  backward_weight=1.0, send=0.1, keep=0.0)).timeline  # fmt: skip
    assert first["makespan"] == line.makespan >= first["bound"]
    assert first["bubble"]["of_total"] == bubble(line).of_total
    assert second["name"] == "zb-v"
    assert second["makespan"] < first["makespan"]
    assert {trace["yaxis"] for trace in answer["passes"]["data"]} == {"y", "y2"}
    assert len(answer["held"]) == 2


def test_order_and_trace_to_take_away(client: TestClient) -> None:
    asked = {"name": "zb-h1", "ranks": 2, "microbatches": 4}
    csv = client.post("/api/v1/schedules/csv", json=asked)
    assert 'filename="zb-h1.csv"' in csv.headers["content-disposition"]
    assert read_csv(csv.text).orders == SCHEDULES["zb-h1"].build(2, 4).orders
    trace = client.post("/api/v1/schedules/trace", json=asked)
    assert {e["ph"] for e in json.loads(trace.text)["traceEvents"]} >= {"X", "M", "C"}


def test_what_can_not_be_drawn_is_refused(client: TestClient) -> None:
    for asked, code in (
        ({"name": "nobody", "ranks": 4, "microbatches": 8}, "schedule.unknown"),
        ({"name": "1f1b", "ranks": 1024, "microbatches": 4096}, "schedule.too-large"),
        ({"name": "dualpipe", "ranks": 4, "microbatches": 7}, "schedule.microbatches"),
    ):
        answer = client.post("/api/v1/schedules", json=asked)
        assert answer.status_code == 422
        assert answer.json()["code"] == code
