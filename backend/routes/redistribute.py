"""From a layout to a layout, without a plan."""

from __future__ import annotations

from planner import compose
from planner.core.mesh import DeviceMesh
from planner.hardware import cluster, cluster_name
from planner.redistribution import SearchOptions
from planner.surfaces import read_layouts, read_shape

from ..answers import redistribution_answer
from ..changes import mesh_of
from ..limits import check_mesh, check_moved, check_shape
from ..schemas import RedistributionAnswer, RedistributionRequest
from . import api_router

router = api_router("redistribute")


@router.post("/redistribute")
def redistribute(wanted: RedistributionRequest) -> RedistributionAnswer:
    """Return the best way from one layout to another, with what each step moves and takes, and who holds what.

    Layouts may be written as Shardwright, DTensor, JAX or MindSpore write them.
    """
    shape = check_shape(read_shape(wanted.shape) if isinstance(wanted.shape, str) else tuple(wanted.shape))
    given = check_mesh(DeviceMesh.parse(wanted.mesh)) if isinstance(wanted.mesh, str) else mesh_of(wanted.mesh)
    mesh, (source, target) = read_layouts((wanted.source, wanted.target), given, shape)
    check_mesh(mesh)
    check_moved(source, target, mesh)
    machines = cluster(wanted.cluster or cluster_name(mesh.device_count))
    machines.must_fit(mesh)
    options = SearchOptions(objective=wanted.objective, exchange=wanted.exchange)
    found = compose.redistribute(
        source, target, mesh, shape=shape, dtype=wanted.dtype, cluster=machines.name, options=options
    )
    return redistribution_answer(found, wanted.dtype, mesh, machines)
