"""Work that succeeds on all ranks or fails on all: a rank that raised alone would leave the others waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from .mesh import Mesh

Result = TypeVar("Result")


class CheckpointError(RuntimeError):
    """A checkpoint can't be written or read; the text says which, and what to do."""


def together(work: Callable[[], Result]) -> list[Result]:
    """Return what this work gives on every rank; where it fails on one, all of them raise.

    Raises
    ------
    CheckpointError
        Of the first rank that failed.
    """
    outcome: tuple[str, Any] = ("", None)
    try:
        outcome = ("", work())
    except (OSError, RuntimeError, TypeError, ValueError) as cause:
        # The other ranks would wait for this one.
        told = str(cause) if isinstance(cause, CheckpointError | OSError) else f"{type(cause).__name__}: {cause}"
        outcome = (told, None)
    outcomes: list[tuple[str, Any]] = [outcome]
    if dist.is_initialized():
        outcomes = [outcome] * dist.get_world_size()
        dist.all_gather_object(outcomes, outcome)
    failed = [told for told, _ in outcomes if told]
    if failed:
        raise CheckpointError(failed[0])
    return [result for _, result in outcomes]


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
