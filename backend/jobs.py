"""Proofs as jobs: a bounded queue, one running at a time, each in a process of its own that cancelling kills.

Jobs live as long as the server; a plan is proved again in less time than it takes to keep a proof up to date.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import secrets
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import SpawnProcess
from threading import Condition, Thread

from planner import Plan
from planner.errors import Diagnostic, PlannerError
from planner.proof import Proof as Found

from .problems import document, of_diagnostic
from .prove_worker import Message, work
from .schemas import Job, Problem, Proof, ProofMesh, ProofRow

QUEUED = 16
KEPT = 100
FINAL = ("done", "failed", "cancelled")

Bundle = Callable[[Plan], Mapping[str, str]]


@dataclass(slots=True)
class _Task:
    """A job with what it takes to run it."""

    job: Job
    plan_text: str
    ranks: int
    process: SpawnProcess | None = field(default=None)


class JobQueue:
    """The jobs of a server.

    Parameters
    ----------
    bundle
        Plan → files to prove, if not the exporter; for tests. It must be importable by name.
    """

    def __init__(self, bundle: Bundle | None = None) -> None:
        self._bundle = bundle
        self._tasks: dict[str, _Task] = {}
        self._waiting: deque[_Task] = deque()
        self._changed = Condition()
        self._thread: Thread | None = None
        self._closed = False

    def add(self, plan_id: str, version: int, plan_text: str, ranks: int) -> Job:
        """Queue a proof.

        Raises
        ------
        PlannerError
            `job.queue-full`.
        """
        job = Job(
            id=secrets.token_hex(8), kind="proof", plan=plan_id, version=version, state="queued", progress=0.0,
            message="waiting", result=None, problem=None,
        )  # fmt: skip
        task = _Task(job, plan_text, ranks)
        with self._changed:
            if len(self._waiting) >= QUEUED or self._closed:
                raise PlannerError(
                    "job.queue-full", f"{len(self._waiting)} proofs wait already.", "Wait for one, or cancel one."
                )
            self._tasks[job.id] = task
            self._waiting.append(task)
            self._forget()
            if self._thread is None:
                # Before multiprocessing's own, which would wait for a running proof.
                atexit.register(self.close)
                self._thread = Thread(target=self._run, name="jobs", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return job

    def get(self, job_id: str) -> Job | None:
        """Return the state of a job."""
        with self._changed:
            task = self._tasks.get(job_id)
            return task.job if task else None

    def cancel(self, job_id: str) -> Job | None:
        """Cancel a job, unless it has ended; its processes are killed."""
        with self._changed:
            task = self._tasks.get(job_id)
            if task is None:
                return None
            if task.job.state not in FINAL:
                self._update(task, state="cancelled", message="cancelled")
                if task in self._waiting:
                    self._waiting.remove(task)
                if task.process is not None:
                    kill(task.process)
            return task.job

    def close(self) -> None:
        """Cancel everything and end the thread."""
        with self._changed:
            self._closed = True
            ids = list(self._tasks)
            self._changed.notify_all()
        for job_id in ids:
            self.cancel(job_id)
        if self._thread is not None:
            self._thread.join(10)
            atexit.unregister(self.close)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                task = self._waiting.popleft()
            # The worker can't remove its files when it is killed. The name is short because sockets lie in the folder,
            # and a socket's path has room for about 100 characters.
            with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as folder:
                self._prove(task, folder)

    def _prove(self, task: _Task, folder: str) -> None:
        context = multiprocessing.get_context("spawn")
        mine, its = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(task.plan_text, task.ranks, self._bundle, its, folder))
        with self._changed:
            if task.job.state == "cancelled":
                mine.close()
                its.close()
                return
            task.process = process
            self._update(task, state="running", message="starting")
            process.start()
        its.close()
        with mine, suppress(EOFError):
            while task.job.state == "running":
                self._take(task, mine.recv())
        kill(process)
        process.join()
        with self._changed:
            task.process = None
            if task.job.state == "running":
                found = document(
                    500, f"The proof's process ended with exit code {process.exitcode}.", code="job.worker-died"
                )
                self._update(task, state="failed", message="failed", problem=found)
        process.close()

    def _take(self, task: _Task, message: Message) -> None:
        with self._changed:
            if task.job.state != "running":
                return
            match message:
                case (float(done), str(text)):
                    self._update(task, progress=done, message=text)
                case Diagnostic():
                    self._update(task, state="failed", message="failed", problem=of_diagnostic(message))
                case Found():
                    text = "proven" if message.ok else "not equal to the unsharded model"
                    self._update(task, state="done", progress=1.0, message=text, result=proof_answer(message))

    def _update(self, task: _Task, **changes: str | float | Proof | Problem) -> None:
        task.job = task.job.model_copy(update=changes)
        self._changed.notify_all()

    def _forget(self) -> None:
        """Drop the oldest jobs that have ended."""
        ended = [job_id for job_id, task in self._tasks.items() if task.job.state in FINAL]
        for job_id in ended[: max(0, len(self._tasks) - KEPT)]:
            del self._tasks[job_id]


def kill(process: SpawnProcess) -> None:
    """Kill a worker with all processes that it started; they share its process group."""
    if process.pid is not None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    # Before the worker has a group of its own, it has started nothing.
    process.kill()


def proof_answer(found: Found) -> Proof:
    """Return a proof as it is answered."""
    rows = [
        # JSON has no word for an error that is no number.
        ProofRow(name=row.name, error=row.error if abs(row.error) < float("inf") else None, rank=row.rank, ok=row.ok)
        for row in found.rows
    ]
    return Proof(
        ok=found.ok, mesh=ProofMesh(axes=list(found.mesh.axes)), rows=rows, failures=list(found.failures),
        collectives=list(found.collectives), uncovered=list(found.uncovered),
    )  # fmt: skip
