"""Work that succeeds on all ranks or fails on all: a rank that raised alone would leave the others waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from .mesh import Mesh

Result = TypeVar("Result")


class PlainError(RuntimeError):
    """What went wrong, in one sentence that says all."""


class EveryRankError(PlainError):
    """What all ranks raise together, so that one of them tells it."""


class CheckpointError(EveryRankError):
    """A checkpoint can't be written or read; the text says which, and what to do."""


class StartError(EveryRankError):
    """Training can't start; the text says why."""


def together(work: Callable[[], Result], kind: type[EveryRankError] = CheckpointError) -> list[Result]:
    """Return what this work gives on every rank; where it fails on one, all of them raise.

    Raises
    ------
    EveryRankError
        Of the given kind, with the text of the first rank that failed; it says which that is if not all did.
    """
    outcome: tuple[str, Any] = ("", None)
    try:
        outcome = ("", work())
    except (OSError, RuntimeError, TypeError, ValueError) as cause:
        # The other ranks would wait for this one.
        outcome = (_told(cause, plain=kind is StartError), None)
    outcomes: list[tuple[str, Any]] = [outcome]
    if dist.is_initialized():
        outcomes = [outcome] * dist.get_world_size()
        dist.all_gather_object(outcomes, outcome)
    failed = [rank for rank, (told, _) in enumerate(outcomes) if told]
    if failed:
        where = f"rank {failed[0]}: " if kind is StartError and len(failed) < len(outcomes) else ""
        raise kind(where + outcomes[failed[0]][0])
    return [result for _, result in outcomes]


def started(work: Callable[[], Result]) -> Result:
    """Return what this work gives here, if it succeeds on all ranks.

    Raises
    ------
    StartError
        On every rank, where it fails on one.
    """
    held: list[Result] = []
    together(lambda: held.append(work()), StartError)
    return held[0]


def _told(cause: Exception, *, plain: bool) -> str:
    """Return a sentence; that of a `ValueError` says all where a run starts."""
    if isinstance(cause, OSError) and cause.filename is not None:
        return f"{cause.strerror}: {cause.filename}"
    return str(cause) if isinstance(cause, PlainError | OSError) or plain else f"{type(cause).__name__}: {cause}"


def on_first(mesh: Mesh, work: Callable[[], Result]) -> Result:
    """Return on every rank what this work gives on rank 0, which alone does it.

    Raises
    ------
    CheckpointError
        On every rank, where it fails.
    """
    results: list[Any] = together(lambda: work() if mesh.rank == 0 else None)
    first: Result = results[0]
    return first
