"""From a layout to a layout, without a plan."""

from __future__ import annotations

from planner import compose
from planner.collectives import COLLECTIVES
from planner.core.tensor import DTYPE_BYTES
from planner.cost import step_seconds
from planner.hardware import cluster, cluster_name
from planner.redistribution import crossing_bound, lower_bound_elements, mindspore_operators
from planner.surfaces import read_holding, read_layouts

from ..answers import crossing_step, slices_answer
from ..changes import mesh_of
from ..limits import check_crossed, check_mesh, check_moved
from ..schemas import RedistributionAnswer, RedistributionRequest, RedistributionStep
from . import api_router

router = api_router("redistribute")


@router.post("/redistribute")
def redistribute(wanted: RedistributionRequest) -> RedistributionAnswer:
    """Return the cheapest way from one layout to another, with what each step moves and takes, and who holds what.

    Layouts may be written as Shardwright, DTensor, JAX or MindSpore write them.
    """
    shape = tuple(wanted.shape)
    if wanted.to_mesh or wanted.to_shape or wanted.planner != "cheapest":
        return _crossed(wanted)
    mesh, (source, target) = read_layouts((wanted.source, wanted.target), mesh_of(wanted.mesh), shape)
    check_mesh(mesh)
    check_moved(source, target, mesh)
    machines = cluster(wanted.cluster or cluster_name(mesh.device_count))
    found = compose.redistribute(source, target, mesh, shape=shape, dtype=wanted.dtype, cluster=machines.name)
    size = DTYPE_BYTES[wanted.dtype]
    bound = lower_bound_elements(found.source, found.target, shape, mesh)
    steps = [
        RedistributionStep(
            kind=step.kind,
            axes=list(step.axes),
            dim=step.dim,
            to_dim=step.to_dim,
            group_size=step.group_size,
            source=str(step.source),
            target=str(step.target),
            source_shape=list(step.source_shape),
            target_shape=list(step.target_shape),
            received_bytes=COLLECTIVES[step.kind].received_bytes(step, mesh, size),
            seconds=step_seconds(step, size, mesh, machines),
        )
        for step in found.steps
    ]
    return RedistributionAnswer(
        mesh=list(mesh.axes), to_mesh=list(mesh.axes), to_shape=list(shape), operators=[], steps=steps,
        slices=[slices_answer(layout, shape, mesh) for layout in (found.source, *(s.target for s in found.steps))],
        received_bytes=sum(step.received_bytes for step in steps),
        bound_bytes=None if bound is None else bound * size, peak_bytes=found.peak_elements * size,
        seconds=sum(step.seconds for step in steps),
    )  # fmt: skip


def _crossed(wanted: RedistributionRequest) -> RedistributionAnswer:
    """Return the way to another mesh or shape, or the one that MindSpore takes."""
    mesh = mesh_of(wanted.mesh)
    shape = tuple(wanted.shape)
    source = read_holding(wanted.source, mesh, shape)
    target = read_holding(
        wanted.target, mesh_of(wanted.to_mesh) if wanted.to_mesh else mesh, tuple(wanted.to_shape or shape)
    )
    check_crossed(source, target)
    machines = cluster(wanted.cluster or cluster_name(mesh.device_count))
    found = compose.cross(source, target, dtype=wanted.dtype, cluster=machines.name, planner=wanted.planner)
    size = DTYPE_BYTES[wanted.dtype]
    bound = crossing_bound(source, target)
    steps = [crossing_step(leg, size, machines) for leg in found.legs]
    return RedistributionAnswer(
        mesh=list(source.mesh.axes), to_mesh=list(target.mesh.axes), to_shape=list(target.shape),
        operators=[] if wanted.planner == "cheapest" else list(mindspore_operators(found)), steps=steps,
        slices=[
            slices_answer(held.layout, held.shape, held.mesh)
            for held in (source, *(leg.target for leg in found.legs))
        ],
        received_bytes=sum(step.received_bytes for step in steps),
        bound_bytes=None if bound is None else bound * size, peak_bytes=found.peak_elements * size,
        seconds=sum(step.seconds for step in steps),
    )  # fmt: skip
