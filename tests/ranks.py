"""Rank processes that a test starts, each with torch at hand and a pipe to the test."""

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any


@contextmanager
def processes(world: int, serve: Callable[..., None], *arguments: Any) -> Iterator[list[Connection]]:
    """Run `serve(rank, world, store, *arguments, pipe)` in a process a rank; they are killed at the end.

    `store` is a file by which they find each other.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "torch.distributed"])
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
