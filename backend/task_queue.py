"""A bounded queue of jobs, one running at a time, each of which can be cancelled.

Jobs live as long as the server; what they find is kept elsewhere, or found again in less time than it takes to keep it
up to date.
"""

from __future__ import annotations

import atexit
import secrets
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, Generic, Literal, TypeVar

from planner.errors import PlannerError

from .problems import document
from .schemas import Job

QUEUED = 16
KEPT = 100
FINAL = ("done", "failed", "cancelled")

Asked = TypeVar("Asked")


@dataclass(slots=True)
class Task(Generic[Asked]):
    """A job with what is asked.

    Parameters
    ----------
    stop
        Ends what runs for it; called when it is cancelled.
    """

    job: Job
    asked: Asked
    stop: Callable[[], None] | None = None


class TaskQueue(ABC, Generic[Asked]):
    """The jobs of one kind; a subclass says in `_work` what one does.

    Parameters
    ----------
    kind
        Of its jobs.
    many
        What its jobs are called, in messages.
    """

    def __init__(self, kind: Literal["proof", "import"], many: str) -> None:
        self._kind, self._many = kind, many
        self._tasks: dict[str, Task[Asked]] = {}
        self._waiting: deque[Task[Asked]] = deque()
        self._changed = Condition()
        self._thread: Thread | None = None
        self._closed = False

    def get(self, job_id: str) -> Job | None:
        """Return the state of a job."""
        with self._changed:
            task = self._tasks.get(job_id)
            return task.job if task else None

    def cancel(self, job_id: str) -> Job | None:
        """Cancel a job, unless it has ended; what runs for it is stopped."""
        with self._changed:
            task = self._tasks.get(job_id)
            if task is None:
                return None
            if task.job.state not in FINAL:
                self._update(task, state="cancelled", message="cancelled")
                if task in self._waiting:
                    self._waiting.remove(task)
                if task.stop is not None:
                    task.stop()
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

    def _add(self, asked: Asked, plan: str = "", version: int = 0) -> Job:
        """Queue a job.

        Raises
        ------
        PlannerError
            `job.queue-full`.
        """
        job = Job(
            id=secrets.token_hex(8), kind=self._kind, plan=plan, version=version, state="queued", progress=0.0,
            message="waiting", result=None, model=None, problem=None,
        )  # fmt: skip
        task = Task(job, asked)
        with self._changed:
            if len(self._waiting) >= QUEUED or self._closed:
                raise PlannerError(
                    "job.queue-full", f"{len(self._waiting)} {self._many} wait already.", "Wait for one, or cancel one."
                )
            self._tasks[job.id] = task
            self._waiting.append(task)
            self._forget()
            if self._thread is None:
                # Before multiprocessing's own, which would wait for a running job.
                atexit.register(self.close)
                self._thread = Thread(target=self._run, name=self._many, daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return job

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                task = self._waiting.popleft()
            self._work(task)

    @abstractmethod
    def _work(self, task: Task[Asked]) -> None:
        """Do a task, and say how it ended."""

    def _fail(self, task: Task[Asked], detail: str, code: str, hint: str = "") -> None:
        self._update(task, state="failed", message="failed", problem=document(500, detail, code=code, hint=hint))

    def _update(self, task: Task[Asked], **changes: Any) -> None:
        task.job = task.job.model_copy(update=changes)
        self._changed.notify_all()

    def _forget(self) -> None:
        """Drop the oldest jobs that have ended."""
        ended = [job_id for job_id, task in self._tasks.items() if task.job.state in FINAL]
        for job_id in ended[: max(0, len(self._tasks) - KEPT)]:
            del self._tasks[job_id]
