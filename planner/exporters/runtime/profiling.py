"""Profile a window of steps: a trace of each rank that Perfetto and chrome://tracing show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from .mesh import Mesh


@contextmanager
def profiled(window: tuple[int, int] | None, folder: str, mesh: Mesh) -> Iterator[Callable[[], None]]:
    """Give what to call after each step.

    Parameters
    ----------
    window
        The first step to profile, counted from where this run begins, and how many; None for none.
    folder
        Where the traces go, one file a rank.
    """
    if window is None:
        yield _nothing
        return
    first, count = window
    path = Path(folder) / f"rank{mesh.rank}.json"

    def write(finished: profile) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        finished.export_chrome_trace(str(path))

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    # The profiler itself is slow in its first step, which is thrown away where there is one before the window.
    warmup = min(first, 1)
    plan = schedule(wait=first - warmup, warmup=warmup, active=count, repeat=1)
    with profile(activities=activities, schedule=plan, on_trace_ready=write) as running:
        yield running.step


def _nothing() -> None:
    """Do nothing."""
