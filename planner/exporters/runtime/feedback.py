"""What compression of gradients has not sent yet: kept in checkpoints, each rank's own.

It is what a rank owes to the sum of the others, so it belongs to the place of the rank in the mesh and to the bucket:
a run goes on with it where both are as they were, and starts from zero elsewhere, which one line says. Names carry the
rank and a digest of the bucket.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path

import torch
from torch import nn

from .agreement import together
from .gradients import Bucket, own_gradients
from .mesh import Mesh
from .shards import Shard

KEPT = "feedback."


def residuals(model: nn.Module, mesh: Mesh) -> dict[str, Shard]:
    """Return what this rank keeps of its buckets, each tensor whole, by names that no other rank has."""
    return {
        f"{KEPT}{mesh.rank}.{name}.{reduction}.{what}": _whole(x)
        for name, bucket in _buckets(model, mesh).items()
        for reduction, memory in bucket.memory.items()
        for what, x in memory.items()
    }


def restore(checkpoint: Path, model: nn.Module, mesh: Mesh) -> None:
    """Give buckets what a checkpoint has of them, or say that it does not fit; all ranks must call."""
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    from .checkpoint import load
    from .stored import read_metadata

    buckets, found = _buckets(model, mesh), dict[str, Shard]()

    def look() -> tuple[bool, bool]:
        stored = read_metadata(checkpoint).state_dict_metadata
        names = [name for name in stored if name.startswith(KEPT)]
        mine = [name for name in names if name.startswith(f"{KEPT}{mesh.rank}.")]
        for name in mine:
            entry = stored[name]
            if isinstance(entry, TensorStorageMetadata) and _place(name)[0] in buckets:
                found[name] = _whole(torch.empty(entry.size, dtype=entry.properties.dtype, device=mesh.device))
        return bool(names), len(found) == len(mine)

    looked = together(look)
    if not any(there for there, _ in looked):
        return
    if not all(fits for _, fits in looked):
        if mesh.rank == 0:
            print(
                f"{checkpoint}: what compression had not sent yet is left out, since the mesh, the buckets of "
                "gradients or their compression are others here",
                flush=True,
            )
        return
    load(checkpoint, found, mesh, all_of_it=False)
    for name, shard in found.items():
        digest, reduction, what = _place(name)
        buckets[digest].memory.setdefault(reduction, {})[what] = shard.local


@torch.no_grad()
def rescale(model: nn.Module, by: float) -> None:
    """Multiply what is kept by the ratio of a new loss scale to that before."""
    for gradient in own_gradients(model).values():
        for bucket in gradient.buckets.values():
            # Each once, with the first of its parameters.
            for memory in bucket.memory.values() if bucket.gradients[0] is gradient else ():
                for x in memory.values():
                    x.mul_(by)


def _whole(x: torch.Tensor) -> Shard:
    return Shard(x, tuple(x.shape), f"[{', '.join('-' * x.dim())}]")


def _place(name: str) -> list[str]:
    """Return the bucket's digest, the reduction, and what is kept of it, by the name in a checkpoint."""
    return name.removeprefix(KEPT).split(".", 3)[1:]


def _buckets(model: nn.Module, mesh: Mesh) -> dict[str, Bucket]:
    """Return the buckets by a digest of what they are."""
    own = own_gradients(model)
    names = {gradient: name for name, gradient in own.items()}
    return {
        _digest(bucket, way, [names[each] for each in bucket.gradients], mesh): bucket
        for gradient in own.values()
        for way, bucket in gradient.buckets.items()
        if bucket.gradients[0] is gradient
    }


def _digest(bucket: Bucket, way: int, names: Collection[str], mesh: Mesh) -> str:
    layouts = [gradient.layout for gradient in bucket.gradients]
    told = [list(mesh.sizes.items()), way, bucket.passed_as, list(zip(names, layouts, strict=True))]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]
