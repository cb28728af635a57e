"""What goes to a rank's process and what comes back. Torch-free: the process that asks needs no torch."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Run a bundle.

    Parameters
    ----------
    kind
        `gradients`: one step without update, compared parameter by parameter. `training`: several updates, comparing
        losses and final parameters.
    reference
        File that the unsharded run writes and the ranks read.
    write_reference
        True for the unsharded run.
    summed
        Of the unsharded run: what its setting `summed` is replaced by; 0 leaves it.
    """

    kind: str
    bundle: Path
    reference: Path
    write_reference: bool
    steps: int = 1
    seed: int = 0
    summed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankResult:
    """One rank's answer: relative errors by name (the loss as `loss`), and the collectives that it executed.

    A collective is its kind, its axes, and the bytes that the rank passed in and got out.
    """

    errors: tuple[tuple[str, float], ...]
    collectives: tuple[tuple[str, tuple[str, ...], int, int], ...]


def enter(rank: int, world: int, store: str, timeout: float, pipe: Connection) -> None:
    """Start a rank's process: torch is loaded here, and not in the process that asks."""
    # A terminal interrupts all its processes at once; the one that asks ends the ranks.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from .worker import serve

    serve(rank, world, store, timeout, pipe)
