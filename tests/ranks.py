"""Rank processes that a test starts, each with torch at hand and a pipe to the test."""

import multiprocessing
import multiprocessing.forkserver
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

LOADED = (
    "planner.proof.worker", "tests.exporters.stepping", "tests.functional.cases", "torch.distributed.fsdp",
    "torch.distributed.tensor.parallel", "torch.distributed.checkpoint", "torch._functorch.aot_autograd",
)  # fmt: skip
"""What the ranks of any test import. Each would take seconds for it."""


def fork_server() -> None:
    """Start what all ranks of this process are forked from, with everything loaded: once it runs, it loads no more."""
    multiprocessing.set_forkserver_preload(list(LOADED))
    multiprocessing.forkserver.ensure_running()


@contextmanager
def processes(world: int, serve: Callable[..., None], *arguments: Any) -> Iterator[list[Connection]]:
    """Run `serve(rank, world, store, *arguments, pipe)` in a process a rank; they are killed at the end.

    `store` is a file by which they find each other.
    """
    fork_server()
    context = multiprocessing.get_context("forkserver")
    with tempfile.TemporaryDirectory() as folder:
        pipes, started = [], []
        try:
            for rank in range(world):
                mine, its = context.Pipe()
                rest = (rank, world, str(Path(folder) / "store"), *arguments, its)
                started.append(context.Process(target=serve, args=rest, daemon=True))
                started[-1].start()
                its.close()
                pipes.append(mine)
            yield pipes
        finally:
            for process in started:
                process.kill()
                process.join()
