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
        case FactorChange(target=target, factor=factor, axes=None):
            return plan.release(target, factor)
        case FactorChange(target=target, factor=factor, axes=axes):
            return plan.shard(target, {factor: tuple(axes or ())})
        case KeepChange(target=target, axis=axis, carriers=None):
            return plan.unkeep(target, axis)
        case KeepChange(target=target, axis=axis, carriers=carriers):
            return plan.keep(target, axis, carriers or ())
        case ParameterChange():
            return plan.store(
                change.target, of=change.of, axes=change.axes, layout=change.layout, regather=change.regather,
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


Arrangement = MeshChange | SplitAxisChange | BatchChange | PrecisionChange | PipelineChange | BoundaryChange
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
        case PipelineChange(axis=None):
            return plan.unpipelined()
        case PipelineChange():
            stages = {use.target: use.stage for use in change.stages}
            return plan.pipelined(change.axis or "", change.schedule, per_rank=change.per_rank, stages=stages)
        case BoundaryChange():
            return compose.move_boundary(plan, change.stage, change.unit)


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
        case KeepChange(carriers=None):
            return f"finish {change.target} over {change.axis}"
        case KeepChange():
            return f"keep {change.target} partial over {change.axis}"
        case ParameterChange():
            where = change.layout or "over " + ("·".join(change.axes) or "no axis")
            return f"store {change.target} {where}{f' on the {change.place}' if change.place else ''}"
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
        case PipelineChange(axis=None):
            return "one piece"
        case PipelineChange():
            how = f"{len(change.stages)} pieces" if change.stages else "balanced"
            return f"{change.schedule} along {change.axis}, {how}"
        case BoundaryChange():
            return f"stage {change.stage} from unit {change.unit}"
