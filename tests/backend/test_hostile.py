"""Bodies and requests that somebody made to hurt: each gets a 4xx, quickly and in bounded memory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from backend.limits import MAX_AXES, MAX_BODY

from .conftest import NEW_PLAN, Caller
from .server import Server, connection

MIB = 1 << 20
JSON = {"Content-Type": "application/json"}
DEEP = 200_000


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"[" * DEEP, 400, "http.json-depth"),
        (b'{"a":' * DEEP + b"1" + b"}" * DEEP, 400, "http.json-depth"),
        (b'{"changes":' + b"[" * 40 + b"]" * 40 + b"}", 400, "http.json-depth"),
        (b'{"seq": ' + b"9" * MIB + b"}", 400, "http.json-number"),
        (b'{"seq": 1e400}', 400, "http.json-number"),
        (b'{"seq": NaN}', 400, "http.json-number"),
        (b'{"seq": -Infinity}', 400, "http.json-number"),
        (b'{"seq": 1, "seq": 2}', 400, "http.json-key"),
        (b'{"name": "\\ud800"}', 400, "http.json-character"),
        (b'{"name": "\xff"}', 400, "http.json-syntax"),
        (b"\xef\xbb\xbf{}", 400, "http.json-syntax"),
        (b"{", 400, "http.json-syntax"),
        (b"", 422, "http.invalid"),
        (b"null", 422, "http.invalid"),
        (b"[]", 422, "http.invalid"),
        (b'"' + b"x" * MAX_BODY + b'"', 413, "http.too-large"),
    ],
    ids=lambda value: repr(value)[:24],
)
def test_bodies(client: Caller, body: bytes, status: int, code: str) -> None:
    for path in ("/api/v1/plans", "/api/v1/models", "/api/v1/redistribute"):
        started = time.process_time()
        answer = client.post(path, content=body, headers=JSON)
        client.problem(answer, status, code)
        assert len(answer.content) < 3000
        assert time.process_time() - started < 5


@pytest.mark.parametrize("declared", ["99999999999999999999", "-1", "1e3", "٣"])
def test_a_length_that_is_none(client: Caller, declared: str) -> None:
    answer = client.post("/api/v1/plans", content=b"{}", headers=JSON | {"Content-Length": declared.encode()})  # type: ignore[operator]
    client.problem(answer, 413, "http.too-large")


HUGE = 1 << 31


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("plans", NEW_PLAN | {"global_batch": HUGE + 1}),
        ("plans", NEW_PLAN | {"mesh": [{"name": "tp", "size": HUGE}]}),
        ("plans", NEW_PLAN | {"mesh": [{"name": f"a{i}", "size": HUGE} for i in range(8)]}),
        ("plans", NEW_PLAN | {"cluster": "999999x8-h100-sxm", "mesh": [{"name": "tp", "size": 7999992}]}),
        ("plans", NEW_PLAN | {"cluster": "1" * 200}),
        ("plans", NEW_PLAN | {"model": "x" * 201}),
        ("plans", NEW_PLAN | {"presets": [{"name": "megatron", "axes": {"axis": ["tp"]}}] * 17}),
        ("redistribute", {"source": "[" * 500, "target": "[-]", "mesh": [{"name": "a", "size": 2}], "shape": [2]}),
        ("redistribute", {"source": "[-]", "target": "[-]", "mesh": [{"name": "a", "size": 2}], "shape": [1 << 50]}),
    ],
)
def test_numbers_and_texts_out_of_bounds(client: Caller, path: str, body: dict[str, Any]) -> None:
    started = time.process_time()
    answer = client.post(f"/api/v1/{path}", json=body)
    assert answer.status_code == 422, answer.text
    assert time.process_time() - started < 5


def test_the_largest_numbers_that_are_allowed(client: Caller) -> None:
    state = client.new(global_batch=HUGE, seq=HUGE)
    assert state["summary"]["step_time_s"] > 0


def test_a_pattern_that_would_backtrack(client: Caller, state: dict[str, Any]) -> None:
    started = time.process_time()
    target = ".".join(["*a" * 40 + "b"] * 20)
    client.ok(client.edit(state, {"type": "factor", "target": target, "factor": "n", "axes": ["tp"]}))
    assert time.process_time() - started < 5


def test_a_mesh_of_many_axes(client: Caller) -> None:
    """A mesh of the most axes that are allowed is planned, not waited for."""
    mesh = [{"name": f"a{i}", "size": 2} for i in range(MAX_AXES)]
    names = [axis["name"] for axis in mesh]
    started = time.process_time()
    client.new(
        cluster="8x8-h100-sxm", mesh=mesh, global_batch=256,
        presets=[{"name": "zero3", "axes": {"axis": names[:3]}}, {"name": "megatron", "axes": {"axis": names[3:]}}],
    )  # fmt: skip
    assert time.process_time() - started < 30
    client.problem(
        client.post("/api/v1/plans", json=NEW_PLAN | {"mesh": [*mesh, {"name": "b", "size": 1}]}), 422, "http.invalid"
    )


def test_axes_that_come_by_splitting(client: Caller) -> None:
    mesh = [{"name": "dp", "size": 1 << 6}]
    state = client.new(cluster="8x8-h100-sxm", mesh=mesh, global_batch=64, presets=[])
    change = {"type": "split_axis", "axis": "dp", "sizes": [2] * 6}
    state = client.ok(client.edit(state, change))
    client.problem(
        client.edit(state, {"type": "split_axis", "axis": "dp0", "sizes": [2, 1]}), 422, "http.mesh-too-large"
    )


def test_a_redistribution_over_too_many_axes(client: Caller) -> None:
    mesh = [{"name": f"a{i}", "size": 2} for i in range(MAX_AXES)]
    body = {"source": "[a0·a1·a2, a3·a4·a5]", "target": "[-, -]", "mesh": mesh, "shape": [64, 64]}
    client.problem(client.post("/api/v1/redistribute", json=body), 422, "http.axes-too-many")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server")) as running:
        yield running


def answered(raw: Any) -> bytes:
    try:
        found: bytes = raw.recv(4096)
    except ConnectionResetError:
        return b""
    return found


def test_a_hundred_megabytes_in_bounded_memory(server: Server) -> None:
    before = server.peak_memory()
    head = b"POST /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    for length in (b"Content-Length: 104857600\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n"):
        with connection(server) as raw:
            raw.sendall(head + length)
            block = b"x" * MIB if b"chunked" not in length else b"100000\r\n" + b"x" * MIB + b"\r\n"
            try:
                for _ in range(100):
                    raw.sendall(block)
            except (BrokenPipeError, ConnectionResetError):
                # Refused before all of it was sent, which is as good as an answer.
                continue
            assert answered(raw).startswith((b"HTTP/1.1 413", b""))
    assert server.peak_memory() - before < 16 * MIB
    assert server.ask("GET", "/healthz")[0] == 200


def test_a_large_body_gets_its_answer_when_the_client_listens(server: Server) -> None:
    with connection(server) as raw:
        raw.sendall(b"POST /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 104857600\r\n\r\n")
        assert answered(raw).startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * MIB + b"\r\n\r\n",
        b"GET /" + b"x" * MIB + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"POST /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /api/v1/plans HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",
    ],
    ids=["header", "path", "length", "two lengths", "nonsense", "tls", "no host"],
)
def test_requests_that_are_none(server: Server, request_bytes: bytes) -> None:
    with connection(server) as raw:
        raw.sendall(request_bytes)
        assert answered(raw)[:10] in {b"HTTP/1.1 4", b""}
    assert server.ask("GET", "/healthz")[0] == 200


def test_the_log_is_one_json_object_a_line(server: Server) -> None:
    server.ask("GET", "/api/v1/plans/secret-id")
    # A request is logged when its answer is out, so the answer may be here first.
    for _ in range(100):
        lines = [json.loads(line) for line in server.log.read_text("utf-8").splitlines()]
        requests = [line for line in lines if line["event"] == "request"]
        if requests and requests[-1]["path"] == "/api/v1/plans/{plan_id}":
            break
        time.sleep(0.05)
    assert {"method", "path", "status", "ms", "time", "level"} <= set(requests[-1])
    assert requests[-1]["path"] == "/api/v1/plans/{plan_id}"


def test_no_file_of_the_server_is_served(server: Server) -> None:
    secret = Path(server.log)
    for path in (f"/..{secret}", f"/%2e%2e%2f%2e%2e{secret}", f"//{secret}", "/assets/../../plans.db"):
        with connection(server) as raw:
            raw.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            answer = answered(raw)
        assert b'"event"' not in answer
        assert b"SQLite format" not in answer
