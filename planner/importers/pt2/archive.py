"""Members of a zip archive that a stranger wrote: few, distinct, plainly named, and no larger than they say.

`zipfile` builds an object for each entry of the directory; so the directory's size is looked up before, where the
archive's end record says it.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import dataclass
from io import SEEK_END
from typing import BinaryIO

from ...errors import ModelError

MAX_DIRECTORY = 8 << 20
"""Bytes of the directory; a model with ten thousand weights has 1 MiB."""
MAX_MEMBERS = 50_000
MAX_RATIO = 200
"""How many times larger than its compressed bytes a member may be; torch stores without compression."""
_END, _END64, _LOCATOR64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_END_SIZE, _COMMENT = 22, 1 << 16
_PROBLEMS = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError, RuntimeError,
             struct.error, UnicodeDecodeError, LookupError, OverflowError)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An archive that was looked through.

    Parameters
    ----------
    name
        What to call the file in messages.
    members
        Path below the archive's single top folder → entry.
    """

    name: str
    members: dict[str, zipfile.ZipInfo]
    reader: zipfile.ZipFile

    def read(self, path: str, most: int) -> bytes:
        """Return the bytes of a member.

        Raises
        ------
        ModelError
            `model.archive-broken`, `model.archive-ratio`, or `model.too-large` for more than `most` bytes.
        """
        entry = self.members[path]
        if entry.file_size > most:
            raise _too_large(self.name, path, entry.file_size, most)
        if entry.file_size > MAX_RATIO * max(entry.compress_size, 1):
            raise ModelError(
                "model.archive-ratio",
                f"In {self.name}, {path} says to hold {entry.file_size:,} bytes in {entry.compress_size:,}.",
                "Save the archive as torch does, without compression.", subject=path,
            )  # fmt: skip
        try:
            with self.reader.open(entry) as stream:
                # One byte more shows that there is more than the directory says.
                data = stream.read(most + 1)
        except _PROBLEMS as problem:
            raise broken(self.name, f"{path} can't be read: {problem}") from None
        if len(data) > most:
            raise _too_large(self.name, path, len(data), most)
        return data


def open_archive(file: BinaryIO, name: str) -> Archive:
    """Return the members of an archive.

    Raises
    ------
    ModelError
        `model.archive-broken` for what is no zip archive, `model.archive-members` for too many, for one name twice, or
        for names that lead elsewhere.
    """
    _check_directory(file, name)
    try:
        reader = zipfile.ZipFile(file)
    except _PROBLEMS as problem:
        raise broken(name, f"it is no zip archive that can be read ({problem})") from None
    entries = reader.infolist()
    if len(entries) > MAX_MEMBERS:
        raise _members(name, f"has {len(entries):,} members; at most {MAX_MEMBERS:,} are read")
    tops = set()
    members: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        top, _, path = entry.filename.partition("/")
        parts = entry.filename.rstrip("/").split("/")
        if not path or "\\" in entry.filename or ":" in top or {"", ".", ".."} & set(parts):
            raise _members(name, f"has a member called {entry.filename[:80]!r}")
        if path in members:
            raise _members(name, f"has two members called {entry.filename[:80]!r}")
        tops.add(top)
        members[path] = entry
    if len(tops) > 1:
        raise _members(name, f"has the top folders {', '.join(sorted(tops)[:3])[:80]}")
    return Archive(name=name, members=members, reader=reader)


def broken(name: str, what: str) -> ModelError:
    """Build the error for an archive that can't be read."""
    return ModelError(
        "model.archive-broken", f"{name} is not as torch.export.save writes it: {what}.",
        "Save the program again with torch.export.save.", subject=name,
    )  # fmt: skip


def _check_directory(file: BinaryIO, name: str) -> None:
    """Refuse an archive with a large directory before anything is made of it."""
    length = file.seek(0, SEEK_END)
    file.seek(max(0, length - _END_SIZE - _COMMENT))
    tail = file.read()
    at = len(tail) - _END_SIZE if tail[-_END_SIZE:].startswith(_END) else tail.rfind(_END)
    if at < 0 or len(tail) - at < _END_SIZE:
        raise broken(name, "it is no zip archive")
    (size,) = struct.unpack_from("<L", tail, at + 12)
    start = len(tail) - at + 20
    locator = tail[max(0, at - 20) : at]
    if locator.startswith(_LOCATOR64):
        # The larger record stands right before its locator.
        file.seek(max(0, length - start - 56))
        record = file.read(56)
        if record.startswith(_END64):
            (size,) = struct.unpack_from("<Q", record, 40)
    if size > MAX_DIRECTORY:
        raise _members(name, f"has a directory of {size:,} bytes; at most {MAX_DIRECTORY:,} are read")
    file.seek(0)


def _members(name: str, what: str) -> ModelError:
    return ModelError(
        "model.archive-members", f"{name} {what}.", "Save the program again with torch.export.save.", subject=name
    )


def _too_large(name: str, path: str, size: int, most: int) -> ModelError:
    return ModelError(
        "model.too-large", f"In {name}, {path} has {size:,} bytes; at most {most:,} are read.",
        "Give a model with fewer operators.", subject=path,
    )  # fmt: skip
