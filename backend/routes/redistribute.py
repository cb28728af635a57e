"""From a layout to a layout, without a plan."""

from __future__ import annotations

from planner import compose
from planner.core.collective import Redistribution
from planner.core.mesh import DeviceMesh
from planner.errors import LayoutError
from planner.hardware import cluster, cluster_name
from planner.redistribution import DEFAULT_OPTIONS, SearchOptions, mindspore_operators
from planner.surfaces import read_holding, read_layouts, read_shape

from ..answers import crossing_answer, redistribution_answer
from ..changes import mesh_of
from ..limits import check_crossed, check_mesh, check_moved, check_shape
from ..schemas import MeshAxis, RedistributionAnswer, RedistributionRequest
from . import api_router

router = api_router("redistribute")


@router.post("/redistribute")
def redistribute(wanted: RedistributionRequest) -> RedistributionAnswer:
    """Return the best way from one layout to another, with what each step moves and takes, and who holds what.

    Layouts may be written as Shardwright, DTensor, JAX or MindSpore write them.
    """
    options = SearchOptions(objective=wanted.objective, exchange=wanted.exchange)
    if wanted.to_mesh or wanted.to_shape or wanted.planner != "cheapest":
        if wanted.front or (options != DEFAULT_OPTIONS and wanted.planner != "cheapest"):
            raise LayoutError(
                "http.options-crossed",
                "Objective and exchange are of the cheapest planner only, and front is of one mesh and shape.",
                "Leave them as they are, or leave out planner, to_mesh and to_shape.",
                subject="objective",
            )
        return _crossed(wanted, options)
    shape, given = _shape(wanted.shape), _mesh(wanted.mesh)
    mesh, (source, target) = read_layouts((wanted.source, wanted.target), given, shape)
    check_mesh(mesh)
    check_moved(source, target, mesh)
    machines = cluster(wanted.cluster or cluster_name(mesh.device_count))
    machines.must_fit(mesh)
    found = compose.redistribute(
        source, target, mesh, shape=shape, dtype=wanted.dtype, cluster=machines.name, options=options
    )
    front: tuple[Redistribution, ...] = ()
    if wanted.front:
        front = compose.pareto(
            source, target, mesh, shape=shape, dtype=wanted.dtype, cluster=machines.name, options=options
        )
    return redistribution_answer(found, wanted.dtype, mesh, machines, front)


def _crossed(wanted: RedistributionRequest, options: SearchOptions) -> RedistributionAnswer:
    """Return the way to another mesh or shape, or the one that MindSpore takes."""
    source = read_holding(wanted.source, _mesh(wanted.mesh), _shape(wanted.shape))
    target = read_holding(wanted.target, _mesh(wanted.to_mesh or wanted.mesh), _shape(wanted.to_shape or wanted.shape))
    check_crossed(source, target)
    machines = cluster(wanted.cluster or cluster_name(source.mesh.device_count))
    machines.must_fit(source.mesh)
    found = compose.cross(
        source, target, dtype=wanted.dtype, cluster=machines.name, planner=wanted.planner, options=options
    )
    operators = () if wanted.planner == "cheapest" else mindspore_operators(found)
    return crossing_answer(found, operators, wanted.dtype, machines)


def _mesh(given: list[MeshAxis] | str) -> DeviceMesh:
    return check_mesh(DeviceMesh.parse(given)) if isinstance(given, str) else mesh_of(given)


def _shape(given: list[int] | str) -> tuple[int, ...]:
    return check_shape(read_shape(given) if isinstance(given, str) else tuple(given))
