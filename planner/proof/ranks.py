"""A group of rank processes that runs jobs; started once, used for many proofs."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from time import monotonic
from types import ModuleType, TracebackType

from ..errors import ProofError
from .job import Job, RankResult, enter


class Ranks:
    """`world` processes joined by gloo; a context manager that ends them.

    Parameters
    ----------
    timeout
        Seconds that a job may take before the processes are ended: a wrong bundle may wait for ever.
    """

    def __init__(self, world: int, *, timeout: float = 120.0) -> None:
        self.world = world
        self.timeout = timeout
        self._processes: list[BaseProcess] = []
        self._pipes: list[Connection] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Ranks:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def run(self, job: Job) -> tuple[RankResult | str, ...]:
        """Run a job on every rank; a rank that failed answers with the error's text.

        Raises
        ------
        ProofError
            `proof.timeout` when ranks do not answer in time, `proof.rank-died` when a process ends.
        """
        self.start()
        for pipe in self._pipes:
            pipe.send(job)
        answers: dict[int, RankResult | str] = {}
        deadline = monotonic() + self.timeout
        while len(answers) < self.world:
            missing = [p for i, p in enumerate(self._pipes) if i not in answers]
            # A failed rank leaves the others waiting in a collective: they get a moment, not the whole time.
            left = deadline - monotonic()
            ready = wait(missing, min(left, 3.0) if any(isinstance(a, str) for a in answers.values()) else left)
            if not ready:
                break
            for index in [i for i, pipe in enumerate(self._pipes) if pipe in ready]:
                try:
                    answers[index] = self._pipes[index].recv()
                except EOFError:
                    self.stop()
                    raise ProofError("proof.rank-died", f"The process of rank {index} ended.") from None
        if any(isinstance(a, str) for a in answers.values()) or len(answers) < self.world:
            # The group is out of step; the next job gets a new one.
            self.stop()
        if not answers or (len(answers) < self.world and not any(isinstance(a, str) for a in answers.values())):
            raise ProofError(
                "proof.timeout", f"{self.world - len(answers)} of {self.world} ranks gave no answer "
                f"in {self.timeout:g} s.",
                "They wait for each other in a collective, or the model is too large to prove here.",
            )  # fmt: skip
        return tuple(answers.get(i, "no answer after another rank failed") for i in range(self.world))

    def stop(self) -> None:
        """End the processes."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(0.5)
            if process.is_alive():
                process.kill()
                process.join()
        self._processes, self._pipes = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def start(self) -> None:
        """Start the processes, unless they run; does not wait until they are up."""
        if self._processes:
            return
        context = multiprocessing.get_context("forkserver")
        # What they are forked from has loaded torch and all else that they run: each by itself would take seconds.
        context.set_forkserver_preload([f"{__package__}.worker"])
        self._folder = tempfile.TemporaryDirectory(prefix="shardwright-")
        store = Path(self._folder.name) / "store"
        for rank in range(self.world):
            mine, its = context.Pipe()
            process = context.Process(target=enter, args=(rank, self.world, str(store), self.timeout, its), daemon=True)
            with _unimportable_main():
                process.start()
            its.close()
            self._processes.append(process)
            self._pipes.append(mine)


@contextmanager
def _unimportable_main() -> Iterator[None]:
    """Hide the main module, which a new process would import again.

    Rank processes need nothing of it, and a script that proves a plan at its top level would start over in each.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
