"""Reads `.safetensors`: eight bytes with the length of a JSON header, the header, and tensors one after the other.

The format is described at https://huggingface.co/docs/safetensors. A file is mapped into memory, and only what is asked
for is read; there is nothing in it that could be run.
"""

from __future__ import annotations

import json
import mmap
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch

TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
LONGEST_HEADER = 100_000_000


@dataclass(frozen=True)
class _Entry:
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def read_safetensors(path: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of a file, which stay on disk until they are read.

    Raises
    ------
    ValueError
        When the file is damaged or has an element type that torch has not.
    """
    with path.open("rb") as file:
        begin = int.from_bytes(file.read(8), "little") + 8
        size = path.stat().st_size
        if not 8 < begin <= min(size, LONGEST_HEADER):
            raise ValueError(f"{path} is no safetensors file: its header would end at byte {begin} of {size}")
        header = file.read(begin - 8)
        # Of one's own, so that torch may take it for a tensor; nothing is ever written.
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    tensors = {}
    for name, entry in _entries(path, header).items():
        dtype = TYPES.get(entry.dtype)
        if dtype is None:
            raise ValueError(f"{path}: {name} has the element type {entry.dtype}; known are {', '.join(TYPES)}")
        count = prod(entry.shape)
        fits = 0 <= entry.start <= entry.stop <= size - begin and min(entry.shape, default=0) >= 0
        if not fits or entry.stop - entry.start != count * dtype.itemsize:
            raise ValueError(f"{path}: {name}, {entry.shape} of {entry.dtype}, can't lie in {entry.start}–{entry.stop}")
        flat = torch.frombuffer(mapped, dtype=dtype, count=count, offset=begin + entry.start) if count else None
        tensors[name] = (torch.empty(0, dtype=dtype) if flat is None else flat).view(entry.shape)
    return tensors


def _entries(path: Path, header: bytes) -> dict[str, _Entry]:
    try:
        found = json.loads(header)
        return {
            name: _Entry(str(entry["dtype"]), tuple(map(int, entry["shape"])), *map(int, entry["data_offsets"]))
            for name, entry in found.items()
            if name != "__metadata__"
        }
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise ValueError(f"{path} is no safetensors file: its header can't be read") from problem
