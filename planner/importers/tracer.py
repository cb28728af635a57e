"""Traces configs in a process of its own, which stays warm: torch and transformers are loaded once.

The process runs only what is in `tracing` and transformers. It is started by the first request, forks for each one so
that every trace starts from the same state, and is killed when a request is stopped or takes too long; the next one
starts another. What it answers is kept, since the same config gives the same graph.
"""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Lock
from time import monotonic

from ..core.graph import ModelGraph
from ..errors import Diagnostic, ModelError
from .watch import NOBODY, Watch

SECONDS = 600.0
"""Longest time that a trace may take."""
LOOK_S = 0.1
KEPT = 16


class Tracer:
    """The process and the last graphs that it made; safe for several threads, which wait for each other.

    Parameters
    ----------
    seconds
        Longest time for a request.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._turn = Lock()
        self._kept: OrderedDict[tuple[str, str], ModelGraph] = OrderedDict()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None

    def graph(self, content: str, name: str, watch: Watch = NOBODY) -> ModelGraph:
        """Return the graph of a config.

        Parameters
        ----------
        content
            What `canonical_config` returns.
        name
            Of the graph.

        Raises
        ------
        ModelError
            `model.tracing-missing` without torch or transformers, `model.import-stopped` when the watch stops it,
            `model.trace-slow` and `model.trace-died` for what the process does not survive, and what tracing raises.
        """
        while not self._turn.acquire(timeout=LOOK_S):
            if watch.stopped():
                raise _stopped(name)
        try:
            if (found := self._kept.get((content, name))) is None:
                found = self._asked(content, name, watch)
                self._kept[content, name] = found
                while len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            return found
        finally:
            self._turn.release()

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            # With the process that it may have forked; they share a group.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def _asked(self, content: str, name: str, watch: Watch) -> ModelGraph:
        pipe = self._started(name)
        end = monotonic() + self._seconds
        try:
            pipe.send((content, name))
            while True:
                while not pipe.poll(LOOK_S):
                    if watch.stopped():
                        raise _stopped(name)
                    if monotonic() > end:
                        raise ModelError(
                            "model.trace-slow", f"Tracing {name} was not done after {self._seconds:g} s.",
                            "Plan it with fewer layers.", subject=name,
                        )  # fmt: skip
                message = pipe.recv()
                if isinstance(message, Diagnostic):
                    raise ModelError(message.code, message.message, message.hint, subject=message.subject)
                if isinstance(message, ModelGraph):
                    return message
                watch.stage(*message)
        except (EOFError, OSError):
            self.close()
            raise ModelError(
                "model.trace-died", f"The process that traced {name} ended.",
                "See whether the machine has memory left.", subject=name,
            ) from None  # fmt: skip
        except BaseException as problem:
            if not isinstance(problem, ModelError) or problem.code in {"model.import-stopped", "model.trace-slow"}:
                self.close()
            raise

    def _started(self, name: str) -> Connection:
        if self._process is not None and self._process.poll() is None and self._pipe is not None:
            return self._pipe
        self.close()
        missing = [package for package in ("torch", "transformers") if find_spec(package) is None]
        if missing:
            raise ModelError(
                "model.tracing-missing", f"{name} has to be traced, and {' and '.join(missing)} is not installed.",
                "Add it with: pip install 'shardwright[trace]'.", subject=name,
            )  # fmt: skip
        mine, its = socket.socketpair()
        # -P: what lies where the user stands is not imported; the planner is the one that runs here.
        path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", f"{__package__}.tracing.worker", str(its.fileno())],
                pass_fds=[its.fileno()], start_new_session=True, stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        self._pipe = Connection(mine.detach())
        return self._pipe


@cache
def tracer() -> Tracer:
    """Return the tracer of this process; it ends with it."""
    made = Tracer()
    atexit.register(made.close)
    return made


def renamed(graph: ModelGraph, name: str) -> ModelGraph:
    """Return the graph under another name."""
    return replace(graph, name=name, source=replace(graph.source, name=name))


def _stopped(name: str) -> ModelError:
    return ModelError("model.import-stopped", f"The import of {name} was stopped.", "Start it again.", subject=name)
