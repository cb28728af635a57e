"""Write and read checkpoints that any bundle of the same model can go on from, whatever its ranks, mesh and layouts."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter

from .agreement import CheckpointError, on_first, together
from .chunks import Reader, Writer
from .feedback import KEPT
from .folders import State, finish, folder_of, prepare, prune, state_of, unfinished
from .mesh import Mesh
from .shards import Shards
from .stored import SafeReader, left_over, read_metadata


def save(folder: Path, step: int, shards: Shards, state: State, mesh: Mesh, *, keep: int | None = None) -> Path:
    """Write a checkpoint and return its folder; all ranks must call.

    Parameters
    ----------
    folder
        Holds the checkpoints of a run, and is the same for all ranks.
    step
        Optimizer steps done.
    keep
        How many checkpoints stay, this one among them; all if None.

    Raises
    ------
    CheckpointError
        On every rank, when one of them fails.
    """
    final = folder_of(folder, step)
    partial = unfinished(final)
    on_first(mesh, lambda: prepare(folder, partial))
    with _told_plainly():
        written = state_dict_saver.save(
            {},
            storage_writer=FileSystemWriter(partial),
            planner=Writer(shards, mesh),
            no_dist=not dist.is_initialized(),
        )
    files = sorted({place.relative_path for place in written.storage_data.values()})
    on_first(mesh, lambda: finish(partial, final, files, {"step": step, **state}))
    if keep is not None:
        on_first(mesh, lambda: prune(folder, keep))
    return final


def load(checkpoint: Path, shards: Shards, mesh: Mesh, *, all_of_it: bool = True) -> dict[str, Any]:
    """Read this rank's shards from a checkpoint, whatever layouts wrote it, and return its state; all ranks must call.

    Element types may differ, too: values are cast.

    Parameters
    ----------
    all_of_it
        Whether what the checkpoint has and no rank asks for is an error; what each rank kept for itself is none.

    Raises
    ------
    CheckpointError
        On every rank, when the checkpoint is not complete, or a tensor is missing or of another shape.
    """
    state: dict[str, Any] = {}
    reader = SafeReader(checkpoint)

    def look() -> int:
        state.update(state_of(checkpoint))
        reader.metadata = read_metadata(checkpoint)
        left = left_over(checkpoint, reader.metadata, shards)
        return _bits(reader.metadata.state_dict_metadata, {name for name in left if not name.startswith(KEPT)})

    over = reduce(and_, together(look))
    if over and all_of_it:
        names = [name for place, name in enumerate(reader.metadata.state_dict_metadata) if over >> place & 1]
        raise CheckpointError(
            f"{checkpoint} has {len(names)} tensors that are not in this model, such as {min(names)}: it is of another "
            "model, or of a run that trained other parameters"
        )
    with _told_plainly():
        planner = Reader(shards, mesh)
        state_dict_loader.load({}, storage_reader=reader, planner=planner, no_dist=not dist.is_initialized())
    return state


def _bits(names: Iterable[str], some: Collection[str]) -> int:
    """Return a number with a bit for each name, set for some: all ranks tell each other theirs, of thousands."""
    return sum(1 << place for place, name in enumerate(names) if name in some)


@contextmanager
def _told_plainly() -> Iterator[None]:
    """Turn what `torch.distributed.checkpoint` raises, on all ranks, into one sentence."""
    try:
        with warnings.catch_warnings():
            # That one process saves alone is meant.
            warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
            yield
    except CheckpointException as problem:
        rank, (cause, _) = min(problem.failures.items())
        raise CheckpointError(f"rank {rank}: {cause}") from cause
