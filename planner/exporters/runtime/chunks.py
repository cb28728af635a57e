"""Shards as `torch.distributed.checkpoint` writes and reads them: boxes of whole tensors, whatever cut them.

A box is written once, however many ranks hold it. On reading, each rank takes what its own boxes have in common with
those in the files, so that neither mesh nor layouts need be those of the run that wrote.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from .layout import Box, box
from .mesh import Mesh

METADATA = ".metadata"
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


class CheckpointError(RuntimeError):
    """A checkpoint can't be written or read; the text says which, and what to do."""


@dataclass(frozen=True)
class Shard:
    """A tensor as this rank holds it.

    Parameters
    ----------
    local
        This rank's part; reading writes into it.
    shape
        Of the whole tensor.
    layout
        Where its parts lie, as printed.
    """

    local: torch.Tensor
    shape: tuple[int, ...]
    layout: str

    def box(self, mesh: Mesh) -> Box:
        """Return the index range that this rank holds, per dim."""
        return box(self.layout, self.shape, mesh)


Shards = Mapping[str, Shard]


class Writer(DefaultSavePlanner):
    """Plans what each rank writes: every box that is not empty, on one of the ranks that hold it."""

    def __init__(self, shards: Shards, mesh: Mesh) -> None:
        super().__init__(flatten_state_dict=False, flatten_sharded_tensors=False)
        self.shards = shards
        self.mesh = mesh

    def create_local_plan(self) -> SavePlan:
        """Propose every box that this rank holds, and say by which layouts they were cut."""
        items = [
            _write_item(name, shard, self.mesh)
            for name, shard in self.shards.items()
            # A tensor without elements is in the files, so that it is found there.
            if shard.local.numel() or 0 in shard.shape
        ]
        self.plan = SavePlan(items, planner_data={name: shard.layout for name, shard in self.shards.items()})
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Choose a writer for each box.

        Stages that share a parameter may cut it by different layouts; the boxes of the first are written.
        """
        layouts: dict[str, str] = {}
        for plan in all_plans:
            layouts = plan.planner_data | layouts
        kept = [
            replace(plan, items=[i for i in plan.items if plan.planner_data[i.index.fqn] == layouts[i.index.fqn]])
            for plan in all_plans
        ]
        return super().create_global_plan(kept)

    def resolve_data(self, write_item: WriteItem) -> torch.Tensor | io.BytesIO:
        """Return the tensor of an item."""
        return self.shards[write_item.index.fqn].local.detach()


class Reader(LoadPlanner):
    """Plans what each rank reads.

    Parameters
    ----------
    all_of_them
        Whether tensors that are in the checkpoint and on no rank are an error.
    """

    def __init__(self, shards: Shards, mesh: Mesh, *, all_of_them: bool = True) -> None:
        self.shards = shards
        self.mesh = mesh
        self.all_of_them = all_of_them

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take note of what is in the checkpoint."""
        self.found = {} if metadata is None else metadata.state_dict_metadata

    def create_local_plan(self) -> LoadPlan:
        """Ask for all boxes that this rank holds.

        Raises
        ------
        CheckpointError
            When the checkpoint lacks a tensor or has it in another shape.
        """
        items: list[ReadItem] = []
        for name, shard in self.shards.items():
            stored = self.found.get(name)
            if not isinstance(stored, TensorStorageMetadata):
                raise CheckpointError(
                    f"the checkpoint has no {name}, which has the shape {shard.shape} here: "
                    "it is of another model, or of a run that trained other parameters"
                )
            if tuple(stored.size) != shard.shape:
                raise CheckpointError(
                    f"{name} has the shape {tuple(stored.size)} in the checkpoint and {shard.shape} here: "
                    "it is of a model of other sizes"
                )
            items += create_read_items_for_chunk_list(name, stored, [_chunk(shard, self.mesh)])
        return LoadPlan(items, planner_data=tuple(self.shards))

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """See that no tensor is left over.

        Raises
        ------
        CheckpointError
            When there is one.
        """
        wanted = {name for plan in global_plan for name in plan.planner_data}
        over = sorted(self.found.keys() - wanted)
        if over and self.all_of_them:
            raise CheckpointError(
                f"{len(over)} of the checkpoint's {len(self.found)} tensors are not in this model, {over[0]}: "
                "the checkpoint is of another model, or of a run that trained other parameters"
            )
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """Return the plan as it is."""
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Refuse what is no tensor: it would have to be unpickled."""
        raise CheckpointError(f"{read_item.dest_index.fqn} is no tensor")

    def resolve_tensor(self, read_item: ReadItem) -> torch.Tensor:
        """Return the part of a local tensor that an item fills."""
        ends = zip(read_item.dest_offsets, read_item.lengths, strict=True)
        local = self.shards[read_item.dest_index.fqn].local.detach()
        return local[tuple(slice(start, start + length) for start, length in ends)]

    def commit_tensor(self, read_item: ReadItem, tensor: torch.Tensor) -> None:
        """Do nothing: the tensor is a view of the local one."""


class SafeReader(FileSystemReader):
    """Reads files whose origin need not be trusted.

    Tensors are read with `weights_only`. The metadata are a pickle, which could call anything: names that
    `torch.distributed.checkpoint` does not write there are refused, and so are files outside the folder.
    """

    def read_metadata(self, *args: Any, **options: Any) -> Metadata:
        """Return what is in the checkpoint."""
        found = read_metadata(Path(self.path))
        found.storage_meta = StorageMeta(load_id=self.load_id)
        return found


def read_metadata(folder: Path) -> Metadata:
    """Return what is in a checkpoint, taking nothing from its metadata but names, shapes and places.

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
            if not re.fullmatch(r"[\w.-]+", place.relative_path) or place.transform_descriptors:
                raise pickle.UnpicklingError(f"it names the file {place.relative_path!r}")
    except Exception as problem:
        # A damaged pickle raises anything.
        raise CheckpointError(f"{path} can't be read: {problem or type(problem).__name__}") from problem
    return found


class _Metadata(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if name in _KNOWN.get(module, ()) or (
            module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        ):
            return super().find_class(module, name)
        if module.partition(".")[0] == "pathlib":
            # The folder that was written to, which nobody asks for; its class depends on where.
            return str
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is nothing that describes tensors")


def _chunk(shard: Shard, mesh: Mesh) -> ChunkStorageMetadata:
    bounds = shard.box(mesh)
    return ChunkStorageMetadata(
        offsets=torch.Size([start for start, _ in bounds]), sizes=torch.Size([stop - start for start, stop in bounds])
    )


def _write_item(name: str, shard: Shard, mesh: Mesh) -> WriteItem:
    chunk = _chunk(shard, mesh)
    if chunk.sizes != shard.local.shape:
        raise CheckpointError(
            f"{name} has the shape {tuple(shard.local.shape)} on this rank, where the layout {shard.layout} "
            f"gives it {tuple(chunk.sizes)} of {shard.shape}"
        )
    properties = TensorProperties(dtype=shard.local.dtype)
    size = torch.Size(shard.shape)
    return WriteItem(
        index=MetadataIndex(name, chunk.offsets),
        type=WriteItemType.SHARD,
        tensor_data=TensorWriteData(chunk=chunk, properties=properties, size=size),
    )
