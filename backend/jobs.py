"""Proofs as jobs, each in a process of its own that cancelling kills."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.context import SpawnProcess

from planner import Plan
from planner.errors import Diagnostic
from planner.proof import Proof as Found

from .problems import of_diagnostic
from .prove_worker import Message, work
from .schemas import Job, Proof, ProofMesh, ProofRow
from .task_queue import Task, TaskQueue

Bundle = Callable[[Plan], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A plan to prove, and on how many ranks at most."""

    plan_text: str
    ranks: int


class JobQueue(TaskQueue[Asked]):
    """The proofs of a server.

    Parameters
    ----------
    bundle
        Plan → files to prove, if not the exporter; for tests. It must be importable by name.
    """

    def __init__(self, bundle: Bundle | None = None) -> None:
        super().__init__("proof", "proofs")
        self._bundle = bundle

    def add(self, plan_id: str, version: int, plan_text: str, ranks: int) -> Job:
        """Queue a proof.

        Raises
        ------
        PlannerError
            `job.queue-full`.
        """
        return self._add(Asked(plan_text, ranks), plan_id, version)

    def _work(self, task: Task[Asked]) -> None:
        # The worker can't remove its files when it is killed. The name is short because sockets lie in the folder,
        # and a socket's path has room for about 100 characters.
        with tempfile.TemporaryDirectory(prefix="sw-", ignore_cleanup_errors=True) as folder:
            self._prove(task, folder)

    def _prove(self, task: Task[Asked], folder: str) -> None:
        context = multiprocessing.get_context("spawn")
        mine, its = context.Pipe(duplex=False)
        arguments = (task.asked.plan_text, task.asked.ranks, self._bundle, its, folder)
        process = context.Process(target=work, args=arguments)
        with self._changed:
            if task.job.state == "cancelled":
                mine.close()
                its.close()
                return
            task.stop = lambda: kill(process)
            self._update(task, state="running", message="starting")
            process.start()
        its.close()
        with mine, suppress(EOFError):
            while task.job.state == "running":
                self._take(task, mine.recv())
        kill(process)
        process.join()
        with self._changed:
            task.stop = None
            if task.job.state == "running":
                detail = f"The proof's process ended with exit code {process.exitcode}."
                self._fail(task, detail, "job.worker-died")
        process.close()

    def _take(self, task: Task[Asked], message: Message) -> None:
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
        ProofRow(
            name=row.name,
            error=row.error if abs(row.error) < float("inf") else None,
            rank=row.rank,
            ok=row.ok,
            node=row.node,
            edge=row.edge,
            hint=row.hint,
        )
        for row in found.rows
    ]
    return Proof(
        ok=found.ok, mesh=ProofMesh(axes=list(found.mesh.axes)), rows=rows, failures=list(found.failures),
        collectives=list(found.collectives), uncovered=list(found.uncovered),
        compared=found.compared,
    )  # fmt: skip
