"""Imports of models as jobs: configs that have to be traced, and files."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from planner.core.graph import ModelGraph
from planner.errors import PlannerError
from planner.importers import Watch, load_bytes

from .problems import of_diagnostic
from .schemas import Job, Model
from .task_queue import Task, TaskQueue

Load = Callable[[bytes, str, Watch], ModelGraph]


@dataclass(frozen=True, slots=True)
class File:
    """What to import, and the name that the model gets."""

    data: bytes
    name: str


class ImportQueue(TaskQueue[File]):
    """The imports of a server.

    Parameters
    ----------
    keep
        Keeps an imported graph, and returns it as it is answered.
    load
        Bytes, name and watch → graph, if not the importers; for tests.
    """

    def __init__(self, keep: Callable[[ModelGraph], Model], load: Load = load_bytes) -> None:
        super().__init__("import", "imports")
        self._keep, self._load = keep, load

    def add(self, data: bytes, name: str) -> Job:
        """Queue an import.

        Raises
        ------
        PlannerError
            `job.queue-full`.
        """
        return self._add(File(data, name))

    def _work(self, task: Task[File]) -> None:
        with self._changed:
            if task.job.state == "cancelled":
                return
            self._update(task, state="running", message="reading")
        watch = Watch(
            stage=lambda done, text: self._told(task, done, text), stopped=lambda: task.job.state != "running"
        )
        try:
            model = self._keep(self._load(task.asked.data, task.asked.name, watch))
            with self._changed:
                if task.job.state == "running":
                    self._update(task, state="done", progress=1.0, message="imported", model=model)
        except PlannerError as error:
            with self._changed:
                # What a cancelled job says has been said.
                if task.job.state == "running":
                    self._update(task, state="failed", message="failed", problem=of_diagnostic(error.diagnostic))
        except Exception as error:
            logging.getLogger(__name__).exception("an import failed")
            detail = f"The import stopped on an error that is not the model's: {type(error).__name__}: {error}"
            with self._changed:
                if task.job.state == "running":
                    self._fail(task, detail, "job.fault", "The server's log says more.")

    def _told(self, task: Task[File], done: float, text: str) -> None:
        with self._changed:
            if task.job.state == "running":
                self._update(task, progress=done, message=text)
