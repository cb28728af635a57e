"""What a rank runs of a bundle in the native form, whose parameters are DTensors.

Every rank compares its own shards, as `worker` does. The collectives are seen where torch dispatches them.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Mapping
from itertools import product
from types import ModuleType
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ..core.stage import SEND_RECV
from .job import Job, RankResult

Compare = Callable[[str, torch.Tensor | None, Callable[[torch.Tensor], torch.Tensor]], tuple[str, float]]
"""Name, this rank's shard, and what cuts that of a whole tensor → the name with the relative error."""

_KINDS = {
    "all_gather": "all_gather", "allgather": "all_gather", "reduce_scatter": "reduce_scatter",
    "all_reduce": "all_reduce", "allreduce": "all_reduce", "all_to_all": "all_to_all", "alltoall": "all_to_all",
    "send": SEND_RECV,
}  # fmt: skip


def execute_native(train: ModuleType, job: Job, compare: Compare) -> RankResult:
    """Run a job on a bundle's `train` module."""
    native, settings = sys.modules["parallel.native"], train.SETTINGS
    mesh = train.device_mesh("cpu")
    spread = train.in_stages if hasattr(train, "in_stages") else train.parallelize
    model = native.built(train.MODEL, spread, mesh, torch.float64)
    native.initialise(model, settings, seed=job.seed, std=0.1)
    _vary(model, native, settings, job.seed)
    with Collectives(mesh) as log:
        if job.kind == "gradients":
            batch = sys.modules["parallel.data"].synthetic_batch(0, settings.inputs, seed=job.seed)
            losses = [native.loss_of_step(model, batch, settings, mesh)]
        else:
            optimizer = native.adamw(model, 1e-3)
            made = native.training(model, optimizer, settings, mesh, steps=job.steps, seed=job.seed)
            losses = list(made)
    errors = [compare("loss", torch.stack([loss.double() for loss in losses]), _whole)]
    for name, parameter in model.named_parameters():
        held = parameter.grad if job.kind == "gradients" else parameter.detach()
        mine = torch.zeros_like(parameter) if held is None else held
        errors.append(compare(name, _local(mine), _cut(parameter)))
    return RankResult(errors=tuple(errors), collectives=tuple(log.found))


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _cut(parameter: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what cuts this rank's shard of a parameter out of a whole tensor, without communication."""

    def cut(whole: torch.Tensor) -> torch.Tensor:
        return distribute_tensor(
            whole, parameter.device_mesh, parameter.placements, src_data_rank=None
        ).to_local()  # fmt: skip

    return cut


@torch.no_grad()
def _vary(model: torch.nn.Module, native: Any, settings: Any, seed: int) -> None:
    """Move biases from 0 and norm weights from 1, as `worker` does in the unsharded model."""
    matches = native.fnmatch
    for name, parameter in model.named_parameters():
        start = next((float(one) for one, patterns in ((True, settings.ones), (False, settings.zeros))
                      for pattern in patterns if matches(name, pattern)), None)  # fmt: skip
        if start is not None:
            generator = torch.Generator().manual_seed(zlib.crc32(f"{seed}:{name}".encode()))
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            native.fill(parameter, start + 0.1 * noise)


class Collectives(TorchDispatchMode):
    """Notes the collectives that run while it is entered: kind, mesh dims, bytes passed in, bytes that come out.

    Those of a group of one rank move nothing and are left out.
    """

    def __init__(self, mesh: DeviceMesh) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...], int, int]] = []
        self._names = mesh.mesh_dim_names or ()
        places = product(*map(range, mesh.mesh.shape))
        self._places = {int(mesh.mesh[place]): place for place in places}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if any(issubclass(each, DTensor) for each in types):
            # What a DTensor's operator is made of comes by again, on local tensors.
            return NotImplemented
        result = function(*args, **(kwargs or {}))
        space, _, name = function.name().partition("::")
        kind = next((kind for start, kind in _KINDS.items() if name.lstrip("_").startswith(start)), None)
        if space in {"c10d", "_c10d_functional"} and kind is not None:
            self._note(kind, args, result)
        return result

    def _note(self, kind: str, args: tuple[Any, ...], result: Any) -> None:
        members = next(ranks for a in reversed(args) if (ranks := _members(a)) is not None)
        tensors = [t for a in args for t in _tensors(a)]
        functional = isinstance(result, torch.Tensor)
        out, into = (result, tensors[0]) if functional else (tensors[0], tensors[-1])
        # What torch tells of shapes and shards before it begins is in whole numbers.
        if len(members) > 1 and (kind != SEND_RECV or into.dtype == torch.float64):
            self.found.append((kind, self._dims(members), _bytes(into), _bytes(out)))

    def _dims(self, members: tuple[int, ...]) -> tuple[str, ...]:
        """Return the mesh dims along which ranks differ."""
        along = zip(self._names, zip(*(self._places[rank] for rank in members), strict=True), strict=True)
        return tuple(name for name, places in along if len(set(places)) > 1)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _tensors(argument: Any) -> list[torch.Tensor]:
    if isinstance(argument, (list, tuple)):
        return [t for each in argument for t in _tensors(each)]
    return [argument] if isinstance(argument, torch.Tensor) else []


def _members(argument: Any) -> tuple[int, ...] | None:
    """Return the ranks of a process group, given by name or as the object that torch passes to its operators."""
    try:
        if isinstance(argument, str):
            group = c10d._resolve_process_group(argument)  # type: ignore[attr-defined, arg-type]
        elif isinstance(argument, torch.ScriptObject):
            group = dist.ProcessGroup.unbox(argument)
        else:
            return None
    except (RuntimeError, ValueError, LookupError):
        return None
    return tuple(sorted(dist.get_process_group_ranks(group)))
