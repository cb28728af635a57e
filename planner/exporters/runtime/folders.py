"""Folders of checkpoints: `step-00000005`, complete or not there.

A folder is written under another name and renamed when everything is in it, so a run that is killed while it saves
leaves what was there before. `state.json`, written last, lists the files with their sizes; what lacks one is never
read.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .agreement import CheckpointError, on_first
from .mesh import Mesh

FORMAT = 1
STATE = "state.json"
METADATA = ".metadata"
_STEP = re.compile(r"step-(\d{8,})")

State = Mapping[str, Any]
"""What a run is beside its tensors: numbers, texts, lists and dicts of them, which JSON keeps as they are."""


def folder_of(folder: Path, step: int) -> Path:
    """Return the name of the checkpoint after so many steps."""
    return folder / f"step-{step:08d}"


def unfinished(final: Path) -> Path:
    """Return the name that a checkpoint has while it is written."""
    return final.with_name(final.name + ".partial")


def complete(folder: Path) -> list[Path]:
    """Return the checkpoints in a folder that have all their files."""
    found = [path for path in folder.glob("step-*") if _STEP.fullmatch(path.name)] if folder.is_dir() else []
    return sorted((path for path in found if wrong(path) is None), key=steps_of)


def prepare(folder: Path, partial: Path) -> None:
    """Make an empty folder to write to, and remove what killed runs left."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("step-*.partial"):
        shutil.rmtree(path)
    partial.mkdir()


def hold_writable(folder: Path, rank: int) -> None:
    """See that a rank can write to a folder, before there is anything to lose.

    Raises
    ------
    ValueError
        Where it can't.
    """
    probe = folder / f".probe-{rank}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"\0")
        probe.unlink()
    except OSError as cause:
        raise ValueError(f"{folder} is no folder to write to: {cause.strerror}") from cause


def finish(partial: Path, final: Path, files: list[str], state: State) -> None:
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
        if wrong(final) is None:
            raise CheckpointError(f"{final} exists: remove it, or save to another folder")
        shutil.rmtree(final)
    _sync(partial)
    partial.rename(final)
    _sync(final.parent)


def prune(folder: Path, keep: int) -> None:
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


def steps_of(checkpoint: Path) -> int:
    """Return after how many steps a checkpoint was written, by its name."""
    found = _STEP.fullmatch(checkpoint.name)
    assert found is not None
    return int(found[1])


def _read(checkpoint: Path) -> dict[str, Any]:
    return json.loads((checkpoint / STATE).read_text("utf-8"))


def wrong(checkpoint: Path) -> str | None:
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


def state_of(checkpoint: Path) -> dict[str, Any]:
    """Return the state of a complete checkpoint.

    Raises
    ------
    CheckpointError
        When it is none.
    """
    if not checkpoint.is_dir():
        raise CheckpointError(f"there is no checkpoint {checkpoint}: name a folder step-… , or `latest`")
    why = wrong(checkpoint)
    if why is not None:
        raise CheckpointError(f"{checkpoint} is no complete checkpoint: {why}")
    state: dict[str, Any] = _read(checkpoint)["state"]
    return state


def latest(folder: Path, mesh: Mesh) -> Path | None:
    """Return the complete checkpoint with the most steps, as rank 0 sees it; None if there is none."""
    return on_first(mesh, lambda: max(complete(folder), default=None, key=steps_of))


def none_later(folder: Path, step: int, mesh: Mesh) -> None:
    """See that a run that goes on after `step` steps will not mix its checkpoints with another run's.

    Raises
    ------
    CheckpointError
        On every rank, when the folder holds a checkpoint of more steps.
    """

    def look() -> None:
        later = [path.name for path in complete(folder) if steps_of(path) > step]
        if later:
            raise CheckpointError(
                f"{folder} holds {later[-1]}, which is later than the {step} steps that this run starts from: "
                "resume from it, remove it, or save to another folder"
            )

    on_first(mesh, look)
