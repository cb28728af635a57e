"""What is in a checkpoint, read without running anything that it may hold."""

from __future__ import annotations

import io
import pickle
import re
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata

from .agreement import CheckpointError
from .folders import METADATA
from .shards import Shards

_KNOWN = {
    "torch": {"Size"},
    "torch.serialization": {"_get_layout"},
    "torch.distributed.checkpoint.filesystem": {"_StorageInfo"},
    "torch.distributed.checkpoint.metadata": {
        "_MEM_FORMAT_ENCODING",
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "Metadata",
        "MetadataIndex",
        "StorageMeta",
        "TensorProperties",
        "TensorStorageMetadata",
    },
}


class SafeReader(FileSystemReader):
    """Reads tensors, with `weights_only`, where `metadata` say that they lie."""

    metadata: Metadata

    def read_metadata(self, *args: Any, **options: Any) -> Metadata:
        """Return what is in the checkpoint."""
        return self.metadata


def read_metadata(folder: Path) -> Metadata:
    """Return what is in a checkpoint.

    The metadata are a pickle, which could call anything: names that `torch.distributed.checkpoint` does not write there
    are refused, and so are files outside the folder.

    Raises
    ------
    CheckpointError
        When the metadata are damaged, or hold something else.
    """
    path = folder / METADATA
    try:
        found = _Metadata(io.BytesIO(path.read_bytes())).load()
        if not isinstance(found, Metadata) or not isinstance(found.storage_data, dict):
            raise pickle.UnpicklingError(f"it holds a {type(found).__name__}")
        for place in found.storage_data.values():
            if not re.fullmatch(r"\w[\w.-]*", place.relative_path) or place.transform_descriptors:
                raise pickle.UnpicklingError(f"it names the file {place.relative_path!r}")
    except Exception as problem:
        # A damaged pickle raises anything.
        raise CheckpointError(f"{path} can't be read: {problem or type(problem).__name__}") from problem
    found.storage_meta = StorageMeta()
    return found


class _Metadata(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _KNOWN.get(module, ()):
            return super().find_class(module, name)
        if module == "torch" and isinstance(getattr(torch, name, None), torch.dtype):
            return getattr(torch, name)
        if module.partition(".")[0] == "pathlib":
            # The folder that was written to, which nobody asks for; its class depends on where.
            return _path
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is nothing that describes tensors")


def left_over(checkpoint: Path, metadata: Metadata, shards: Shards) -> frozenset[str]:
    """Return the names of what is in a checkpoint and not among these shards.

    Raises
    ------
    CheckpointError
        When the checkpoint lacks one of them or has it in another shape.
    """
    stored = metadata.state_dict_metadata
    for name, shard in shards.items():
        found = stored.get(name)
        if not isinstance(found, TensorStorageMetadata):
            raise CheckpointError(
                f"{checkpoint} has no {name}, which has the shape {shard.shape} here: it is of another model, or of a "
                "run that trained other parameters"
            )
        if tuple(found.size) != shard.shape:
            raise CheckpointError(
                f"{checkpoint} has {name} in the shape {tuple(found.size)}, and it has {shard.shape} here: it is of a "
                "model of other sizes"
            )
    return frozenset(stored) - frozenset(shards)


def _path(*parts: str) -> str:
    return "/".join(parts)
