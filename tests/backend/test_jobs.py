"""Covers: backend.jobs, prove_worker, routes.jobs, and the progress of planner.proof."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.app import create_app
from backend.jobs import JobQueue, proof_answer
from backend.task_queue import QUEUED
from planner.core.mesh import DeviceMesh
from planner.proof import Proof, ProofRow

from . import sabotage
from .conftest import LOCAL, Caller

ROOT = Path(__file__).parents[2]
SMALL = {"cluster": "1x2-h100-sxm", "mesh": [{"name": "tp", "size": 2}],
         "presets": [{"name": "megatron", "axes": {"axis": ["tp"]}}]}  # fmt: skip
STAGES = ["shrinking", "exporting", "starting ranks", "unsharded run", "sharded run", "comparing"]


def events(client: Caller, job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return every state that a job goes through, until it ends."""
    with client.stream("GET", f"/api/v1/jobs/{job['id']}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line.startswith("data: ")]


def until(met: Callable[[], Any]) -> Any:
    """Wait until something holds, and return what it gave."""
    deadline = time.monotonic() + 120
    while not (found := met()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.fixture
def sabotaged(request: pytest.FixtureRequest) -> Iterator[Caller]:
    with Caller(create_app(bundle=getattr(sabotage, request.param)), base_url=LOCAL) as client:
        yield client


def start(client: Caller) -> dict[str, Any]:
    state = client.new(**SMALL)
    job: dict[str, Any] = client.ok(client.post(f"/api/v1/plans/{state['id']}/proofs", json={"ranks": 2}), 202)
    assert (job["plan"], job["kind"], job["version"]) == (state["id"], "proof", 1)
    return job


def test_a_proof_with_its_progress(client: Caller) -> None:
    job = start(client)
    seen = events(client, job)
    final = seen[-1]
    assert client.ok(client.get(f"/api/v1/jobs/{job['id']}")) == final
    assert (final["state"], final["progress"], final["problem"]) == ("done", 1.0, None)
    progress = [state["progress"] for state in seen]
    assert progress == sorted(progress)
    # A state that is over before the next look is not sent; what is sent comes in order.
    messages = [state["message"] for state in seen if state["state"] == "running"]
    told = [m for m in messages if m in STAGES]
    assert told
    assert told == [s for s in STAGES if s in messages]
    proof = final["result"]
    assert proof["ok"]
    assert proof["mesh"] == {"axes": [["tp", 2]]}
    assert proof["rows"][0]["name"] == "loss"
    assert all(row["ok"] and row["error"] <= 1e-10 for row in proof["rows"])
    # What has ended stays as it is.
    assert client.ok(client.delete(f"/api/v1/jobs/{job['id']}")) == final


@pytest.mark.parametrize("sabotaged", ["without_an_all_reduce"], indirect=True)
def test_a_sabotaged_bundle_gives_red_rows(sabotaged: Caller) -> None:
    final = events(sabotaged, start(sabotaged))[-1]
    assert final["state"] == "done"
    assert not final["result"]["ok"]
    red = [row for row in final["result"]["rows"] if not row["ok"]]
    assert any(row["name"].endswith("embed_tokens.weight") for row in red)
    assert final["message"] == "not equal to the unsharded model"


@pytest.mark.parametrize("sabotaged", ["that_does_not_compile"], indirect=True)
def test_a_bundle_that_does_not_run_is_a_failure_of_its_ranks(sabotaged: Caller) -> None:
    final = events(sabotaged, start(sabotaged))[-1]
    assert final["state"] == "done"
    assert not final["result"]["ok"]
    assert "SyntaxError" in final["result"]["failures"][0]


@pytest.mark.parametrize("sabotaged", ["that_kills_its_process"], indirect=True)
def test_a_worker_that_dies_fails_its_job_only(sabotaged: Caller) -> None:
    for _ in range(2):
        final = events(sabotaged, start(sabotaged))[-1]
        assert (final["state"], final["problem"]["code"]) == ("failed", "job.worker-died")


@pytest.mark.parametrize("sabotaged", ["that_fails"], indirect=True)
def test_a_fault_of_ours_is_told(sabotaged: Caller) -> None:
    final = events(sabotaged, start(sabotaged))[-1]
    assert (final["state"], final["problem"]["code"]) == ("failed", "job.fault")
    assert "ZeroDivisionError: of all things" in final["problem"]["detail"]


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the server's temporary files go; short, since sockets lie there."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def pid_in(folder: Path) -> int:
    """Return the process in which `that_takes_for_ever` says that it runs, 0 if it does not yet."""
    return next((int(file.read_text() or 0) for file in folder.glob("sw-*/pid")), 0)


@pytest.mark.parametrize("sabotaged", ["that_takes_for_ever"], indirect=True)
def test_cancelling_kills_the_process_and_cleans_up(sabotaged: Caller, short: Path) -> None:
    job, waiting = start(sabotaged), start(sabotaged)
    pid = until(lambda: pid_in(short))
    assert sabotaged.ok(sabotaged.get(f"/api/v1/jobs/{waiting['id']}"))["state"] == "queued"
    assert sabotaged.ok(sabotaged.delete(f"/api/v1/jobs/{waiting['id']}"))["state"] == "cancelled"
    cancelled = sabotaged.ok(sabotaged.delete(f"/api/v1/jobs/{job['id']}"))
    assert (cancelled["state"], cancelled["message"]) == ("cancelled", "cancelled")
    assert events(sabotaged, job) == [cancelled]
    until(lambda: not alive(pid))
    until(lambda: not list(short.iterdir()))


def test_cancelling_ends_the_ranks_too(client: Caller, short: Path) -> None:
    """In the middle of a real proof: the worker, its fork server and its ranks share a process group."""
    job = start(client)
    assert until(lambda: (now := client.ok(client.get(f"/api/v1/jobs/{job['id']}")))["progress"] >= 0.3 and now)
    (worker,) = multiprocessing.active_children()
    group = worker.pid
    client.ok(client.delete(f"/api/v1/jobs/{job['id']}"))
    until(lambda: not [p for p in Path("/proc").glob("[0-9]*") if alive(int(p.name)) and pgid(int(p.name)) == group])


def pgid(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


@pytest.mark.parametrize("sabotaged", ["that_takes_for_ever"], indirect=True)
def test_the_queue_is_bounded(sabotaged: Caller, short: Path) -> None:
    start(sabotaged)
    until(lambda: pid_in(short))
    state = sabotaged.new(**SMALL)
    path = f"/api/v1/plans/{state['id']}/proofs"
    for _ in range(QUEUED):
        sabotaged.ok(sabotaged.post(path), 202)
    sabotaged.problem(sabotaged.post(path), 429, "job.queue-full")


def test_a_killed_server_leaves_no_worker(tmp_path: Path) -> None:
    program = (
        "import sys, time; from backend.jobs import JobQueue; from tests.backend import sabotage\n"
        "from planner import Plan, compose, load_model\n"
        "if __name__ == '__main__':\n"
        "    plan = Plan.new(load_model('llama-tiny'), cluster='1x2-h100-sxm', mesh='tp:2', global_batch=2, seq=8)\n"
        "    JobQueue(sabotage.that_takes_for_ever).add('p', 1, compose.plan_text(plan), 2); time.sleep(600)\n"
    )
    script = tmp_path / "server.py"
    script.write_text(program)
    environment = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    server = subprocess.Popen([sys.executable, str(script)], env=environment)
    try:
        pid = until(lambda: pid_in(tmp_path))
        server.send_signal(signal.SIGKILL)
        server.wait()
        until(lambda: not alive(pid))
    finally:
        server.kill()
        server.wait()


def test_without_torch_it_says_how_to_add_it(
    client: Caller, state: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.routes.jobs.find_spec", lambda name: None)
    found = client.problem(client.post(f"/api/v1/plans/{state['id']}/proofs"), 422, "proof.torch-missing")
    assert "make run TORCH=1" in found["hint"]
    assert "pip install" in found["hint"]


def test_unknown_jobs_and_plans(client: Caller, state: dict[str, Any]) -> None:
    for answer in (client.get("/api/v1/jobs/x"), client.get("/api/v1/jobs/x/events"), client.delete("/api/v1/jobs/x")):
        client.problem(answer, 404, "http.not-found")
    client.problem(client.post("/api/v1/plans/x/proofs"), 404, "http.not-found")
    path = f"/api/v1/plans/{state['id']}/proofs"
    client.problem(client.post(path, json={"ranks": 9}), 422, "http.invalid")
    client.problem(client.post(path, json={"bundle": "tests.backend.sabotage:evil"}), 422, "http.invalid")


def test_a_plan_that_can_not_be_proved_says_why(client: Caller) -> None:
    names = [f"a{i}" for i in range(4)]
    state = client.new(cluster="2x8-h100-sxm", mesh=[{"name": n, "size": 2} for n in names], presets=[])
    job = client.ok(client.post(f"/api/v1/plans/{state['id']}/proofs"), 202)
    final = events(client, job)[-1]
    assert (final["state"], final["problem"]["code"]) == ("failed", "proof.mesh-too-large")
    assert final["problem"]["hint"]


@pytest.mark.parametrize("error", [float("nan"), float("inf")])
def test_an_error_that_is_no_number_is_null(error: float) -> None:
    row = ProofRow(name="loss", error=error, rank=1, ok=False)
    proof = Proof(ok=False, mesh=DeviceMesh.of({"tp": 2}), rows=(row,), failures=(), collectives=(), uncovered=())
    assert proof_answer(proof).rows[0].error is None


def test_old_jobs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backend.task_queue.KEPT", 3)
    queue = JobQueue()
    monkeypatch.setattr(queue, "_run", lambda: None)
    ids = []
    for _ in range(5):
        ids.append(queue.add("p", 1, "", 2).id)
        queue.cancel(ids[-1])
    assert [queue.get(job_id) is not None for job_id in ids] == [False, False, True, True, True]
    queue.close()
