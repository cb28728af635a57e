"""From a layout to a layout, without a plan."""

from __future__ import annotations

from planner import compose
from planner.collectives import COLLECTIVES
from planner.core.tensor import DTYPE_BYTES
from planner.cost import step_seconds
from planner.hardware import cluster, cluster_name
from planner.redistribution import lower_bound_elements
from planner.surfaces import read_layouts

from ..answers import slices_answer
from ..changes import mesh_of
from ..limits import check_mesh, check_moved
from ..schemas import RedistributionAnswer, RedistributionRequest, RedistributionStep
from . import api_router

router = api_router("redistribute")


@router.post("/redistribute")
def redistribute(wanted: RedistributionRequest) -> RedistributionAnswer:
    """Return the cheapest way from one layout to another, with what each step moves and takes, and who holds what.

    Layouts may be written as Shardwright, DTensor, JAX or MindSpore write them.
    """
    shape = tuple(wanted.shape)
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
        mesh=list(mesh.axes), steps=steps,
        slices=[slices_answer(layout, shape, mesh) for layout in (found.source, *(s.target for s in found.steps))],
        received_bytes=sum(step.received_bytes for step in steps),
        bound_bytes=None if bound is None else bound * size, peak_bytes=found.peak_elements * size,
        seconds=sum(step.seconds for step in steps),
    )  # fmt: skip
