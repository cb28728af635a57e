"""Covers: backend.imports, task_queue, traces, and the routes for imports."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import planner
from backend.app import create_app
from backend.settings import Settings
from backend.traces import Traces
from planner.core.graph import ModelGraph, ModelSource
from planner.core.json_text import digest
from planner.importers import Watch, load_at_once

from .conftest import LOCAL, Caller
from .test_jobs import events

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip
TO_TRACE = json.dumps({"model_type": "opt"})


def start(client: Caller, content: str | bytes, name: str = "mine") -> dict[str, Any]:
    data = content.encode() if isinstance(content, str) else content
    job: dict[str, Any] = client.ok(client.post("/api/v1/models/import", params={"name": name}, content=data), 202)
    assert (job["kind"], job["plan"], job["result"]) == ("import", "", None)
    return job


def test_a_file_is_imported_and_planned(client: Caller) -> None:
    final = events(client, start(client, json.dumps(CONFIG)))[-1]
    assert (final["state"], final["progress"], final["problem"]) == ("done", 1.0, None)
    made = final["model"]
    assert (made["name"], made["layers"], made["builtin"]) == ("mine", 3, False)
    assert client.ok(client.get(f"/api/v1/models/{made['id']}")) == made
    assert client.new(model=made["id"])["model"] == {"id": made["id"], "name": "mine"}


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", "model.json-syntax"), (b"\xff\xfe", "model.file-unreadable"), (b"[]", "model.config-type"),
     (b'{"model_type": "opt", "num_hidden_layers": 99999}', "model.config-bounds")],
)  # fmt: skip
def test_what_is_no_model_fails_with_its_code(client: Caller, content: bytes, code: str) -> None:
    final = events(client, start(client, content))[-1]
    assert (final["state"], final["problem"]["code"], final["model"]) == ("failed", code, None)
    assert final["problem"]["hint"]


def test_a_config_that_has_to_be_traced_is_sent_to_the_jobs(client: Caller) -> None:
    answer = client.post("/api/v1/models", json={"name": "mine", "content": TO_TRACE})
    assert "/api/v1/models/import" in client.problem(answer, 422, "http.takes-long")["hint"]


def test_a_large_file_is_taken_and_a_larger_one_refused(client: Caller) -> None:
    final = events(client, start(client, b" " * (3 << 20)))[-1]
    assert (final["state"], final["problem"]["code"]) == ("failed", "model.too-large")
    answer = client.post("/api/v1/models/import", params={"name": "x"}, content=b" " * ((64 << 20) + 1))
    client.problem(answer, 413, "http.too-large")


@pytest.fixture
def slow(client: Caller) -> Caller:
    """A server whose imports take until they are stopped."""

    def load(data: bytes, name: str, watch: Watch) -> ModelGraph:
        watch.stage(0.5, "waiting for ever")
        while not watch.stopped():
            time.sleep(0.02)
        raise planner.PlannerError("model.import-stopped", "stopped")

    client.app.state.desk.imports._load = load  # type: ignore[attr-defined]
    return client


def until(met: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not met():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_cancelling_stops_an_import_and_the_next_one_runs(slow: Caller) -> None:
    first, second = start(slow, b"{}"), start(slow, b"{}")
    path = "/api/v1/jobs/"
    until(lambda: slow.ok(slow.get(path + first["id"]))["message"] == "waiting for ever")
    assert slow.ok(slow.get(path + second["id"]))["state"] == "queued"
    cancelled = slow.ok(slow.delete(path + first["id"]))
    assert (cancelled["state"], cancelled["progress"]) == ("cancelled", 0.5)
    until(lambda: slow.ok(slow.get(path + second["id"]))["state"] == "running")
    assert slow.ok(slow.get(path + first["id"])) == cancelled
    slow.ok(slow.delete(path + second["id"]))


def test_a_fault_of_ours_is_told(client: Caller) -> None:
    def load(data: bytes, name: str, watch: Watch) -> ModelGraph:
        raise ZeroDivisionError("of all things")

    client.app.state.desk.imports._load = load  # type: ignore[attr-defined]
    final = events(client, start(client, b"{}"))[-1]
    assert (final["state"], final["problem"]["code"]) == ("failed", "job.fault")
    assert "of all things" in final["problem"]["detail"]


def traced_graph() -> ModelGraph:
    """Return a small graph under the source of a config that has to be traced."""
    source = load_at_once(TO_TRACE, "mine")
    assert isinstance(source, ModelSource)
    assert digest(source.content) == source.digest
    return replace(planner.load_model("llama-tiny"), name="mine", source=source)


def test_traces_are_kept_in_files(tmp_path: Path) -> None:
    graph = traced_graph()
    traces = Traces(tmp_path / "traces")
    assert traces.get(graph.source) is None
    traces.put(graph)
    found = traces.get(replace(graph.source, name="other"))
    assert found is not None
    assert (found.root, found.source.name) == (graph.root, "other")
    (file,) = (tmp_path / "traces").iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    assert traces.get(graph.source) is None


def test_a_traced_model_is_not_traced_again_by_the_next_server(tmp_path: Path) -> None:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'plans.db'}", data=tmp_path)
    with Caller(create_app(settings), base_url=LOCAL) as client:
        client.app.state.desk.imports._load = lambda data, name, watch: traced_graph()  # type: ignore[attr-defined]
        made = events(client, start(client, TO_TRACE))[-1]["model"]
    # With nothing that could trace it: the source's own name is what OPT would be.
    with Caller(create_app(settings), base_url=LOCAL) as client:
        assert client.ok(client.get(f"/api/v1/models/{made['id']}")) == made
        assert made["parameters"] == planner.load_model("llama-tiny").parameter_count
