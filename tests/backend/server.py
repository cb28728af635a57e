"""A server in a process of its own, as `python -m backend` starts it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A running server; a context manager that ends it."""

    def __init__(self, data: Path, port: int | None = None, **environment: str) -> None:
        self.port = port or free_port()
        self.log = data / "server.log"
        data.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "backend", "--port", str(self.port)], cwd=data,
                stderr=log, stdout=subprocess.DEVNULL,
                env={**os.environ, "SHARDWRIGHT_DATA": str(data), "PYTHONPATH": str(ROOT), **environment},
            )  # fmt: skip

    def __enter__(self) -> Server:
        deadline = time.monotonic() + 120
        while True:
            try:
                self.ask("GET", "/healthz")
                return self
            except OSError:
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < deadline, self.log.read_text()
                time.sleep(0.05)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait(20)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        """Send a request and return status and JSON body."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, method=method)
        request.add_header("Content-Type", "application/json")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())

    def peak_memory(self) -> int:
        """Return the most bytes that it has held at once."""
        (line,) = [
            x for x in Path(f"/proc/{self.process.pid}/status").read_text().splitlines() if x.startswith("VmHWM")
        ]
        return int(line.split()[1]) * 1024


@contextmanager
def connection(server: Server) -> Iterator[socket.socket]:
    """Open a connection to write bytes on that no client would."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        yield raw
