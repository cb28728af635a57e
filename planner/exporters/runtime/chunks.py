"""Shards as `torch.distributed.checkpoint` writes and reads them: boxes of whole tensors, whatever cut them.

A box is written once, however many ranks hold it. On reading, each rank takes what its own boxes have in common with
those in the files, so that neither mesh nor layouts need be those of the run that wrote.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import torch
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
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

from .agreement import CheckpointError
from .mesh import Mesh
from .shards import Shard, Shards


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
    """Plans what each rank reads: what its boxes have in common with those that were written."""

    def __init__(self, shards: Shards, mesh: Mesh) -> None:
        self.shards = shards
        self.mesh = mesh

    def set_up_planner(
        self, state_dict: dict[str, Any], metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """Take note of what is in the checkpoint."""
        assert metadata is not None
        self.stored = metadata.state_dict_metadata

    def create_local_plan(self) -> LoadPlan:
        """Ask for all boxes that this rank holds."""
        items: list[ReadItem] = []
        for name, shard in self.shards.items():
            stored = self.stored[name]
            assert isinstance(stored, TensorStorageMetadata)
            items += create_read_items_for_chunk_list(name, stored, [_chunk(shard, self.mesh)])
        return LoadPlan(items)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """Return the plans as they are."""
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
