"""Checkpoints of a run: folders `step-00000005` that any bundle of the same model can go on from.

A folder is written under another name and renamed when everything is in it, so a run that is killed while it saves
leaves what was there before. `state.json`, written last, lists the files with their sizes; what lacks one is never
read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemWriter

from .chunks import METADATA, CheckpointError, Reader, SafeReader, Shards, Writer
from .mesh import Mesh

FORMAT = 1
STATE = "state.json"
_STEP = re.compile(r"step-(\d{8,})")


State = Mapping[str, Any]
"""What a run is beside its tensors: numbers, texts, lists and dicts of them, which JSON keeps as they are."""
Result = TypeVar("Result")


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
    final = folder / f"step-{step:08d}"
    partial = final.with_name(final.name + ".partial")
    _together(mesh, lambda: _prepare(folder, partial), only_rank=0)
    with _told_plainly():
        written = state_dict_saver.save(
            {}, storage_writer=FileSystemWriter(partial), planner=Writer(shards, mesh), no_dist=_alone()
        )
    files = sorted({place.relative_path for place in written.storage_data.values()})
    _together(mesh, lambda: _finish(partial, final, files, {"step": step, **state}), only_rank=0)
    if keep is not None:
        _together(mesh, lambda: _prune(folder, keep), only_rank=0)
    return final


def load(checkpoint: Path, shards: Shards, mesh: Mesh, *, all_of_them: bool = True) -> dict[str, Any]:
    """Read this rank's shards from a checkpoint, whatever layouts wrote it, and return its state; all ranks must call.

    Element types may differ, too: values are cast.

    Parameters
    ----------
    all_of_them
        Whether what the checkpoint has and no rank asks for is an error.

    Raises
    ------
    CheckpointError
        On every rank, when the checkpoint is not complete, or a tensor is missing or of another shape.
    """
    state = _together(mesh, lambda: _state_of(checkpoint))
    with _told_plainly():
        state_dict_loader.load(
            {},
            storage_reader=SafeReader(checkpoint),
            planner=Reader(shards, mesh, all_of_them=all_of_them),
            no_dist=_alone(),
        )
    return state


def latest(folder: Path, mesh: Mesh) -> Path | None:
    """Return the complete checkpoint with the most steps, as rank 0 sees it; None if there is none."""
    return _together(mesh, lambda: max(complete(folder), default=None, key=_number), only_rank=0)


def complete(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder that have all their files."""
    found = [path for path in folder.glob("step-*") if _STEP.fullmatch(path.name)] if folder.is_dir() else []
    return sorted((path for path in found if _wrong(path) is None), key=_number)


def none_later(folder: Path, step: int, mesh: Mesh) -> None:
    """See that a run that goes on after `step` steps will not mix its checkpoints with another run's.

    Raises
    ------
    CheckpointError
        On every rank, when the folder holds a checkpoint of more steps.
    """

    def look() -> None:
        later = [path.name for path in complete(folder) if _number(path) > step]
        if later:
            raise CheckpointError(
                f"{folder} holds {later[-1]}, which is later than the {step} steps that this run starts from: "
                "resume from it, remove it, or save to another folder"
            )

    _together(mesh, look, only_rank=0)


def _prepare(folder: Path, partial: Path) -> None:
    """Make an empty folder to write to, and remove what killed runs left."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("step-*.partial"):
        shutil.rmtree(path)
    partial.mkdir()


def _finish(partial: Path, final: Path, files: list[str], state: State) -> None:
    """Write the state and give the folder its name, which it has when all of it is on the disk."""
    missing = [name for name in files if not (partial / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{missing[0]}, which another rank wrote to {partial}, is not there for rank 0: "
            "save to a folder that all nodes share"
        )
    sizes = {name: (partial / name).stat().st_size for name in (METADATA, *files)}
    text = json.dumps({"format": FORMAT, "files": sizes, "state": state}, indent=1)
    with (partial / STATE).open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    if final.exists():
        if _wrong(final) is None:
            raise CheckpointError(f"{final} exists: remove it, or save to another folder")
        shutil.rmtree(final)
    _sync(partial)
    partial.rename(final)
    _sync(final.parent)


def _prune(folder: Path, keep: int) -> None:
    """Remove all but the last checkpoints; each loses its state first, so that half of one is never taken for whole."""
    for path in complete(folder)[:-keep]:
        (path / STATE).unlink()
        shutil.rmtree(path)


def _sync(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _number(path: Path) -> int:
    found = _STEP.fullmatch(path.name)
    assert found is not None
    return int(found[1])


def _read(checkpoint: Path) -> dict[str, Any]:
    return json.loads((checkpoint / STATE).read_text("utf-8"))


def _wrong(checkpoint: Path) -> str | None:
    """Return why a folder is no complete checkpoint."""
    try:
        found = _read(checkpoint)
        if found["format"] != FORMAT:
            return f"its format is {found['format']}, and this code reads {FORMAT}"
        for name, size in found["files"].items():
            path = checkpoint / name
            if Path(name).name != name or not path.is_file():
                return f"its file {name} is missing"
            if path.stat().st_size != size:
                return f"its file {name} has {path.stat().st_size} bytes instead of {size}"
        return None if isinstance(found["state"]["step"], int) else "its state names no step"
    except FileNotFoundError:
        return f"it has no {STATE}, which is written when all else is there"
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return f"its {STATE} can't be read"


def _state_of(checkpoint: Path) -> dict[str, Any]:
    if not checkpoint.is_dir():
        raise CheckpointError(f"there is no checkpoint {checkpoint}: name a folder step-… , or `latest`")
    wrong = _wrong(checkpoint)
    if wrong is not None:
        raise CheckpointError(f"{checkpoint} is no complete checkpoint: {wrong}")
    state: dict[str, Any] = _read(checkpoint)["state"]
    return state


def _alone() -> bool:
    return not dist.is_initialized()


def _together(mesh: Mesh, work: Callable[[], Result], *, only_rank: int | None = None) -> Result:
    """Return what this rank's, or one rank's, work gives; where it fails on one rank, all of them raise."""
    outcome: tuple[str, Any] = ("", None)
    if only_rank in {None, mesh.rank}:
        try:
            outcome = ("", work())
        except Exception as cause:
            # Whatever it is: the other ranks would wait for this one.
            told = str(cause) if isinstance(cause, CheckpointError | OSError) else f"{type(cause).__name__}: {cause}"
            outcome = (f"rank {mesh.rank}: {told}" if only_rank is None else told, None)
    outcomes = [outcome]
    if dist.is_initialized():
        outcomes = [outcome] * dist.get_world_size()
        dist.all_gather_object(outcomes, outcome)
    for problem, _ in outcomes:
        if problem:
            raise CheckpointError(problem)
    result: Result = outcomes[0 if only_rank is None else only_rank][1] if only_rank is not None else outcome[1]
    return result


@contextmanager
def _told_plainly() -> Iterator[None]:
    """Turn what `torch.distributed.checkpoint` raises, on all ranks, into one sentence."""
    try:
        with warnings.catch_warnings():
            # That one process saves alone is meant.
            warnings.filterwarnings("ignore", "torch.distributed is disabled", UserWarning)
            yield
    except CheckpointException as problem:
        told = [f"rank {rank}: {cause}" for rank, (cause, _) in sorted(problem.failures.items())]
        raise CheckpointError(told[0]) from problem
