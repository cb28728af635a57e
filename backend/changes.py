"""A change as it comes over HTTP → the method of `planner.Plan` that makes it, and a label for the history."""

from __future__ import annotations

from collections.abc import Iterable

from planner import Plan, compose
from planner.core.mesh import DeviceMesh

from .limits import check_mesh
from .schemas import (
    BatchChange,
    BoundaryChange,
    Change,
    ClearChange,
    FactorChange,
    GradientsChange,
    KeepChange,
    MeshAxis,
    MeshChange,
    ParameterChange,
    PipelineChange,
    PrecisionChange,
    PresetChange,
    RecomputeChange,
    SplitAxisChange,
)

LONGEST_LABEL = 200


def apply(plan: Plan, changes: Iterable[Change]) -> Plan:
    """Return the plan after all changes.

    Raises
    ------
    PlannerError
        The first change that is not legal.
    """
    for change in changes:
        plan = _apply(plan, change)
        check_mesh(plan.decisions.mesh)
    return plan


def _apply(plan: Plan, change: Change) -> Plan:
    match change:
        case FactorChange(target=target, factor=factor, axes=axes):
            return plan.release(target, factor) if axes is None else plan.shard(target, {factor: tuple(axes)})
        case KeepChange(target=target, axis=axis, carriers=carriers):
            return plan.unkeep(target, axis) if carriers is None else plan.keep(target, axis, carriers)
        case ParameterChange(axes=None):
            return plan.unstore(change.target, of=change.of)
        case ParameterChange():
            return plan.store(
                change.target, of=change.of, axes=change.axes or (), layout=change.layout, regather=change.regather,
                deferred=change.deferred, place=change.place,
            )  # fmt: skip
        case RecomputeChange():
            return plan.recompute(change.target, again=change.again)
        case PresetChange():
            return plan.preset(change.name, **change.axes)
        case ClearChange():
            return plan.clear()
        case _:
            return _arrange(plan, change)


Arrangement = (
    MeshChange | SplitAxisChange | BatchChange | PrecisionChange | GradientsChange | PipelineChange | BoundaryChange
)
"""Changes to what the whole plan runs on and in which order."""


def _arrange(plan: Plan, change: Arrangement) -> Plan:
    match change:
        case MeshChange():
            return plan.on(cluster=change.cluster, mesh=mesh_of(change.axes))
        case SplitAxisChange():
            return plan.split_axis(change.axis, tuple(change.sizes))
        case BatchChange():
            return plan.batch(global_batch=change.global_batch, seq=change.seq, microbatches=change.microbatches)
        case PrecisionChange():
            return plan.precise(change.name)
        case GradientsChange():
            return plan.gradients(
                fusion=change.fusion, bucket_bytes=change.bucket_bytes, indices=change.indices,
                reduction=change.reduction, overlap=change.overlap, compression=change.compression,
            )  # fmt: skip
        case PipelineChange(axis=None):
            return plan.unpipelined()
        case PipelineChange():
            stages = {use.target: use.stage for use in change.stages}
            return plan.pipelined(change.axis or "", change.schedule, per_rank=change.per_rank, stages=stages)
        case BoundaryChange():
            return compose.move_boundary(plan, change.stage, change.unit)


def gradients_text(change: GradientsChange) -> str:
    """Return how gradients are reduced, in a few words."""
    words: list[str] = [change.reduction]
    words += [] if change.fusion == "none" else [f"fused by {change.fusion}"]
    words += ["beside backward"] * change.overlap
    words += [] if change.compression == "none" else [f"as {change.compression}"]
    return ", ".join(words)


def mesh_of(axes: Iterable[MeshAxis]) -> DeviceMesh:
    """Return the mesh of a request; refuses repeated names and sizes that no cluster has."""
    return check_mesh(DeviceMesh(tuple((axis.name, axis.size) for axis in axes)))


def label_of(changes: list[Change]) -> str:
    """Return a label for changes that came without one."""
    more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
    first = _label(changes[0])
    room = LONGEST_LABEL - len(more)
    return (first if len(first) <= room else f"{first[: room - 1]}…") + more


def _label(change: Change) -> str:
    match change:
        case FactorChange(axes=None):
            return f"let {change.target} {change.factor} follow"
        case FactorChange():
            where = f"over {'·'.join(change.axes)}" if change.axes else "whole"
            return f"{change.target} {change.factor} {where}"
        case KeepChange():
            how = "finish {} over {}" if change.carriers is None else "keep {} partial over {}"
            return how.format(change.target, change.axis)
        case ParameterChange():
            return _label_of_parameter(change)
        case RecomputeChange():
            what = {True: "compute again", False: "do not compute again", None: "forget recompute of"}[change.again]
            return f"{what} {change.target}"
        case PresetChange():
            over = " ".join("·".join(axes) for axes in change.axes.values())
            return f"{change.name} over {over}" if over else change.name
        case ClearChange():
            return "clear all sharding"
        case _:
            return _label_of_arrangement(change)


def _label_of_parameter(change: ParameterChange) -> str:
    what = change.target if change.of == "storage" else f"the {change.of} of {change.target}"
    if change.axes is None:
        return f"forget where {what} lies"
    where = change.layout or (f"over {'·'.join(change.axes)}" if change.axes else "")
    place = f"on the {change.place}" if change.place else ""
    return " ".join(word for word in ("store", what, where, place) if word)


def _label_of_arrangement(change: Arrangement) -> str:
    match change:
        case MeshChange():
            return f"mesh {','.join(f'{axis.name}:{axis.size}' for axis in change.axes)} on {change.cluster}"
        case SplitAxisChange():
            return f"split {change.axis} into {' × '.join(map(str, change.sizes))}"
        case BatchChange():
            length = f" × {change.seq}" if change.seq else ""
            return f"batch {change.global_batch}{length} in {change.microbatches}"
        case PrecisionChange():
            return f"precision {change.name}"
        case GradientsChange():
            return f"gradients: {gradients_text(change)}"
        case PipelineChange(axis=None):
            return "one piece"
        case PipelineChange():
            how = f"{len(change.stages)} pieces" if change.stages else "balanced"
            return f"{change.schedule} along {change.axis}, {how}"
        case BoundaryChange():
            return f"stage {change.stage} from unit {change.unit}"
