"""What a file holds of weights, buffers and constants: which share memory, and the values of small ones.

Values lie as raw bytes; a member that its configuration calls pickled is never opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType

import numpy as np

from ...core.json_text import JsonBounds, parse
from ...errors import ModelError
from ..entries import Entry
from .archive import Archive
from .numbers import SCALAR_TYPES

MAX_ELEMENTS = 1 << 16
"""Elements of the largest buffer whose values are kept."""
MAX_KEPT = 4_000_000
"""Elements of all buffers whose values are kept."""
_BOUNDS = JsonBounds(error=ModelError, prefix="model", max_bytes=16 << 20, max_depth=12, max_values=1_500_000)
_PLACES = ("data/weights", "data/constants")
_NUMPY: Mapping[str, str] = MappingProxyType({
    "uint8": "<u1", "int8": "<i1", "int16": "<i2", "int32": "<i4", "int64": "<i8", "float16": "<f2", "float32": "<f4",
    "float64": "<f8", "bool": "?",
})  # fmt: skip
Values = tuple[float, ...] | tuple[int, ...] | tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What a file holds.

    Parameters
    ----------
    values
        Path of a buffer or constant → its elements, for the small ones that are there.
    shared
        Path of a weight → path of the first one that is the same memory.
    """

    values: Mapping[str, Values]
    shared: Mapping[str, str]


def read_held(archive: Archive, model: str, name: str) -> Held:
    """Return what the archive holds for one of its models."""
    values: dict[str, Values] = {}
    shared: dict[str, str] = {}
    first: dict[object, str] = {}
    room = MAX_KEPT
    for place in _PLACES:
        kind = place.rpartition("/")[2]
        config = f"{place}/{model}_{kind}_config.json"
        if config not in archive.members:
            continue
        text = _decoded(archive.read(config, _BOUNDS.max_bytes), f"{name}: {config}")
        entries = Entry(parse(text, f"{name}: {config}", _BOUNDS), "", f"{name}: {config}", "archive").at("config")
        for path in entries.value if isinstance(entries.value, dict) else ():
            entry = entries.at(path)
            member = f"{place}/{entry.at('path_name').name()}"
            if entry.at("is_param").value is True:
                key = _memory(entry, member, archive)
                if key is not None and path != first.setdefault(key, path):
                    shared[path] = first[key]
            elif room > 0 and (found := _values(entry, member, archive)) is not None:
                room -= len(found)
                values[path] = found
    return Held(values=values, shared=shared)


def _decoded(data: bytes, what: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ModelError(
            "model.archive-broken", f"{what} is no UTF-8 text (byte {problem.start}).",
            "Save the program again with torch.export.save.",
        ) from None  # fmt: skip


def _memory(entry: Entry, member: str, archive: Archive) -> object:
    """Return what tells a weight's memory from others'; None where the file holds none, as for the meta device."""
    info = archive.members.get(member)
    if info is None or info.file_size == 0:
        return None
    meta = entry.at("tensor_meta")
    return (member, str(meta.at("sizes").value), str(meta.at("strides").value), str(meta.at("storage_offset").value))


def _values(entry: Entry, member: str, archive: Archive) -> Values | None:
    meta = entry.at("tensor_meta")
    number = meta.at("dtype").value
    dtype = SCALAR_TYPES.get(number, "") if isinstance(number, int) else ""
    sizes = [item.at("as_int").integer(0, 1 << 62) for item in meta.at("sizes").items()]
    strides = [item.at("as_int").integer(0, 1 << 62) for item in meta.at("strides").items()]
    contiguous = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    plain = all(size == 1 or stride == right for size, stride, right in zip(sizes, strides, contiguous, strict=False))
    width = 2 if dtype == "bfloat16" else np.dtype(_NUMPY[dtype]).itemsize if dtype in _NUMPY else 0
    info = archive.members.get(member)
    if entry.at("use_pickle").value is not False or not width or not plain or info is None:
        return None
    count = prod(sizes)
    begin = meta.at("storage_offset").at("as_int").integer(0, 1 << 62) * width
    if count > MAX_ELEMENTS or begin + count * width > info.file_size or info.file_size > 64 * MAX_ELEMENTS:
        return None
    data = archive.read(member, info.file_size)[begin : begin + count * width]
    if dtype == "bfloat16":
        # The upper half of a float32.
        raw = np.frombuffer(data, dtype="<u2").astype(np.uint32) << np.uint32(16)
        return tuple(raw.view(np.float32).tolist())
    return tuple(np.frombuffer(data, dtype=_NUMPY[dtype]).tolist())
