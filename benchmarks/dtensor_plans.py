"""The steps that DTensor's two redistribution planners take, as steps of ours.

Both plan one mesh dim at a time: greedily from the last to the first and back, or by Dijkstra's algorithm over
placements and orders ("min-cost"). No process is started: the process group is torch's fake one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh as TorchMesh
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.distributed.tensor._redistribute import _gen_transform_infos_non_cached
from torch.testing._internal.distributed.fake_pg import FakeStore

from planner.collectives import COLLECTIVES
from planner.core.collective import Redistribution
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh


@contextmanager
def pretend_ranks(mesh: DeviceMesh) -> Iterator[TorchMesh]:
    """Give torch's mesh of as many pretend ranks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dist.init_process_group("fake", rank=0, world_size=mesh.device_count, store=FakeStore())
        try:
            yield init_device_mesh("cpu", tuple(n for _, n in mesh.axes), mesh_dim_names=mesh.names)
        finally:
            dist.destroy_process_group()


def spec(layout: Layout, shape: tuple[int, ...], mesh: TorchMesh) -> DTensorSpec:
    """Return a layout whose dims hold axes in the order of the mesh as DTensor's placements."""
    place = {axis: Shard(dim) for dim, axes in enumerate(layout.dims) for axis in axes}
    strides = tuple(torch.empty(shape, device="meta").stride())
    meta = TensorMeta(torch.Size(shape), strides, torch.float32)
    return DTensorSpec(mesh, tuple(place.get(a, Replicate()) for a in mesh.mesh_dim_names), tensor_meta=meta)


def plan(
    source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh, ranks: TorchMesh, min_cost: bool
) -> tuple[Redistribution, float]:
    """Return what one of the two planners does, and the seconds in which it found it."""
    before, after = spec(source, shape, ranks), spec(target, shape, ranks)
    start = perf_counter()
    infos = _gen_transform_infos_non_cached(before, after, min_cost)
    seconds = perf_counter() - start
    layout, steps = source, []
    for info in infos:
        axis = mesh.names[info.mesh_dim]
        old, new = info.src_dst_placements
        match (isinstance(old, Shard), isinstance(new, Shard)):
            case (True, True):
                kind, dims = "all_to_all", {"dim": old.dim, "to_dim": new.dim}
            case (True, False):
                kind, dims = "all_gather", {"dim": old.dim}
            case _:
                kind, dims = "slice", {"dim": new.dim}
        steps.append(COLLECTIVES[kind].step(layout, shape, mesh, axes=(axis,), **dims))
        layout = steps[-1].target
    assert layout == target, f"{source} → {target}: {layout}"
    return Redistribution(source=source, target=target, shape=shape, steps=tuple(steps)), seconds
