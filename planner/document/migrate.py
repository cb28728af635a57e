"""Bring plan files of older versions to the present one, a version at a time.

What a version did not say is added, before the file's shape is checked; what is wrong in it is found there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

File = dict[str, object]


def migrate(file: File, version: int) -> File:
    """Return a file of `version` as one of the present version."""
    for step in range(version, max(MIGRATIONS, default=0) + 1):
        file = MIGRATIONS[step](file) | {"version": step + 1}
    return file


def _from_1(file: File) -> File:
    """Version 1 knew storage only; gradients and optimizer state followed it."""
    entries = file.get("parameters")
    if not isinstance(entries, list):
        return file
    new: File = {"of": "storage", "deferred": False}
    return file | {"parameters": [new | entry if isinstance(entry, dict) else entry for entry in entries]}


def _from_2(file: File) -> File:
    """Version 2 knew no pipeline, computed nothing again, kept all on devices, and reduced gradients one by one."""
    gradients: File = {
        "fusion": "none", "bucket_bytes": 0, "indices": [], "reduction": "mean", "overlap": False,
        "compression": "none",
    }  # fmt: skip
    entries = file.get("parameters")
    if isinstance(entries, list):
        new: File = {"place": None}
        file = file | {"parameters": [new | entry if isinstance(entry, dict) else entry for entry in entries]}
    return {"pipeline": None, "recompute": [], "gradients": gradients} | file


MIGRATIONS: Mapping[int, Callable[[File], File]] = MappingProxyType({1: _from_1, 2: _from_2})
"""Version → what makes the next version of it."""
