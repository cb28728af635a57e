"""What the planner found → what is answered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, TypeAdapter
from starlette.responses import Response

from planner import compose
from planner.collectives import is_local
from planner.collectives.handover import leg_received
from planner.core.cluster import ClusterSpec
from planner.core.collective import Redistribution
from planner.core.crossing import Crossing, Leg
from planner.core.gradient_decision import GradientDecision
from planner.core.graph import ModelGraph, ModelSource
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.core.plan import Decisions
from planner.core.report import Report
from planner.core.tensor import DTYPE_BYTES
from planner.cost import leg_seconds
from planner.drawing import leg_reason
from planner.importers import load_zoo, zoo_names
from planner.importers.zoo_table import ZOO, ZooEntry
from planner.redistribution import StepAccount, crossing_bound
from planner.simulate import arrivals, leg_arrivals, slice_map

from .evaluation import Evaluated
from .schemas import (
    Decision,
    Effect,
    FactorDecision,
    FrontWay,
    Gradients,
    KeepDecision,
    MemoryPart,
    MeshAxis,
    Model,
    ModelRef,
    NewPlan,
    ParameterDecision,
    PipelineState,
    PlanState,
    PlanSummary,
    PresetUse,
    RecomputeDecision,
    RedistributionAnswer,
    RedistributionStep,
    Slices,
    Summary,
)
from .store import StoredPlan

PLAIN: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "compute": ("compute, forward", "compute, backward", "compute, forward again"),
    "communication": (
        "communication of activations", "exposed communication of parameters", "exposed gradient communication",
        "exposed, host",
    ),
    "optimizer": ("optimizer",),
    "bubble": (),
})  # fmt: skip
PIPELINE: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "compute": ("work", "recompute"),
    "communication": ("messages",),
    "optimizer": ("after the last pass",),
    "bubble": ("bubble of the schedule", "imbalance"),
})  # fmt: skip
"""What a summary adds up → items of the step time."""


def json_answer(value: object, kind: Any = None, *, status: int = 200, etag: int | None = None) -> Response:
    """Answer a model, or a value of `kind`, without the copies that the framework would make of a large one."""
    text = value.model_dump_json() if isinstance(value, BaseModel) else TypeAdapter(kind).dump_json(value)
    headers = {"ETag": f'"{etag}"'} if etag is not None else {}
    return Response(text, status, headers, media_type="application/json")


def download(content: bytes, media_type: str, name: str) -> Response:
    """Answer a file, to be saved."""
    return Response(content, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def model_answer(graph: ModelGraph, model_id: str) -> Model:
    """Return a model."""
    carried = [repeat.block.inputs[0].meta.shape[-1] for repeat in graph.root.repeats if repeat.block.inputs]
    return Model(
        id=model_id, name=graph.name, architecture=graph.modules[0].class_name if graph.modules else "",
        layers=graph.layer_count,
        hidden=next((size for size in carried if isinstance(size, int)), 0),
        parameters=graph.parameter_count, longest_seq=graph.longest_seq, builtin=model_id in zoo_names(),
        symbols=list(graph.symbols), fixed=list(graph.fixed), group=ZOO[model_id].group if model_id in ZOO else "",
        start=_start(ZOO[model_id]) if model_id in ZOO else None,
    )  # fmt: skip


def _start(entry: ZooEntry) -> NewPlan:
    """Return the plan to start from that a model of the zoo has."""
    return NewPlan(
        model=entry.name, cluster=entry.cluster, mesh=[MeshAxis(name=axis, size=size) for axis, size in entry.mesh],
        global_batch=entry.batch, seq=entry.seq, microbatches=entry.microbatches,
        presets=[PresetUse(name=preset, axes={"axis": [axis]}) for preset, axis in entry.presets],
    )  # fmt: skip


def model_ref(source: ModelSource) -> ModelRef:
    """Return a plan's model, under the name of the one that comes along if it is that one."""
    if source.name in zoo_names() and load_zoo(source.name).source.digest == source.digest:
        return ModelRef(id=source.name, name=source.name)
    return ModelRef(id=f"sha256-{source.digest}", name=source.name)


def state_answer(plan: StoredPlan, found: Evaluated, *, status: int = 200) -> Response:
    """Answer the state of a plan, with its version as ETag."""
    d = plan.decisions
    state = PlanState(
        id=plan.id, name=plan.name, version=plan.version, undo=plan.undo, redo=plan.redo, cluster=d.cluster,
        global_batch=d.global_batch, seq=d.seq, microbatches=d.microbatches, precision=d.precision,
        gradients=_gradients(d.gradients),
        model=model_ref(plan.source), decisions=decisions(d), pipeline=pipeline_state(d),
        view=found.view, summary=summary(found),
    )  # fmt: skip
    return json_answer(state, status=status, etag=plan.version)


def _gradients(d: GradientDecision) -> Gradients:
    return Gradients.model_validate(asdict(d) | {"indices": list(d.indices)})


def decisions(d: Decisions) -> list[Decision]:
    """Return the decisions of a plan as one list."""
    return [
        *(FactorDecision(type="factor", target=f.target, factor=f.factor, axes=list(f.axes)) for f in d.factors),
        *(KeepDecision(type="keep", target=k.target, axis=k.axis, carriers=list(k.carriers)) for k in d.kept),
        *(
            ParameterDecision(
                type="parameter",
                target=p.target,
                of=p.of,
                axes=list(p.axes),
                regather=p.regather,
                deferred=p.deferred,
                layout=None if p.layout is None else str(p.layout),
                place=p.place,
            )
            for p in d.parameters
        ),
        *(RecomputeDecision(type="recompute", target=r.target, again=r.again) for r in d.recompute),
    ]


def pipeline_state(d: Decisions) -> PipelineState | None:
    """Return what a plan decides about its pipeline."""
    if d.pipeline is None:
        return None
    stages = [(use.target, use.stage) for use in d.pipeline.stages]
    return PipelineState(
        axis=d.pipeline.axis, schedule=d.pipeline.schedule, per_rank=d.pipeline.per_rank, stages=stages
    )


def summary(found: Evaluated) -> Summary:
    """Return the numbers at a glance."""
    report = found.report
    step, parts = report.step_time, PIPELINE if found.report.pipeline else PLAIN

    def part(name: str) -> float:
        return sum(child.value for child in step.children if child.name in parts[name])

    return Summary(
        step_time_s=step.value, interval_s=report.interval,
        compute_s=part("compute"), communication_s=part("communication"), optimizer_s=part("optimizer"),
        bubble_s=part("bubble"),
        memory_bytes=report.memory.value, capacity_bytes=report.capacity_bytes,
        memory_parts=[MemoryPart(name=part.name, bytes=part.value) for part in report.memory.children],
        mfu=report.mfu, samples_per_second=report.samples_per_second, tokens_per_second=report.tokens_per_second,
        flops=report.flops, collectives=calls(report),
        diagnostics=list(report.diagnostics), evaluated_ms=found.took_s * 1000,
    )  # fmt: skip


def calls(report: Report) -> int:
    """Return how many collectives a rank calls in a step, without what is local."""
    return sum(row.count for row in report.collectives if not is_local(row.kind))


def plan_summary(plan: StoredPlan) -> PlanSummary:
    """Return a plan's line in the list of plans."""
    seconds, memory, capacity = plan.numbers
    return PlanSummary(
        id=plan.id, name=plan.name, model=plan.source.name, mesh=list(plan.decisions.mesh.axes),
        cluster=plan.decisions.cluster, version=plan.version, updated=plan.updated.isoformat(),
        step_time_s=seconds, memory_bytes=memory, capacity_bytes=capacity,
    )  # fmt: skip


def effect(before: Evaluated, after: Evaluated) -> Effect:
    """Return what lies between two evaluations."""
    old, new = before.report, after.report
    return Effect(
        step_time_s=new.step_time.value, memory_bytes=new.memory.value,
        step_time_delta_s=new.step_time.value - old.step_time.value,
        memory_delta_bytes=new.memory.value - old.memory.value,
        collectives_delta=calls(new) - calls(old), diagnostics=list(new.diagnostics),
    )  # fmt: skip


def slices_answer(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Slices:
    """Return which part each rank holds, of as many ranks as one looks at."""
    found = slice_map(layout, shape, mesh)
    return Slices(
        layout=str(layout), mesh=list(mesh.axes), shape=list(shape), partial=list(layout.partial), reduce=layout.reduce,
        ranks=found.device_count, slices=[list(part) for part in found.slices], note=found.note,
    )  # fmt: skip


def redistribution_answer(
    found: Redistribution, dtype: str, mesh: DeviceMesh, machines: ClusterSpec, front: tuple[Redistribution, ...] = ()
) -> RedistributionAnswer:
    """Return a redistribution with what each step moves and takes, and who holds what after it.

    Parameters
    ----------
    front
        Other ways to be told beside it.
    """
    told = compose.account(found, mesh, dtype=dtype, cluster=machines.name)
    others = [compose.account(other, mesh, dtype=dtype, cluster=machines.name) for other in front]
    layouts = (found.source, *(step.target for step in found.steps))
    return RedistributionAnswer(
        mesh=list(mesh.axes), source=str(found.source), target=str(found.target), shape=list(found.shape), dtype=dtype,
        cluster=machines.name, steps=[_step(step, found.shape, mesh) for step in told.steps],
        slices=[slices_answer(layout, found.shape, mesh) for layout in layouts],
        received_bytes=told.received_bytes, bound_bytes=told.bound_bytes, bound_of_sums=told.sums,
        peak_bytes=told.peak_bytes, staging_bytes=told.staging_bytes, seconds=told.seconds, gap=found.gap,
        front=[
            FrontWay(
                steps=[str(step) for step in other.redistribution.steps], seconds=other.seconds,
                received_bytes=other.received_bytes, peak_bytes=other.peak_bytes,
            )
            for other in others
        ],
    )  # fmt: skip


def crossing_answer(
    found: Crossing, operators: tuple[str, ...], dtype: str, machines: ClusterSpec
) -> RedistributionAnswer:
    """Return a crossing with what each leg moves and takes, and who holds what after it.

    Parameters
    ----------
    operators
        What MindSpore would run, by its planner.
    """
    size = DTYPE_BYTES[dtype]
    source, target = found.source, found.target
    bound = crossing_bound(source, target)
    steps = [_leg(leg, size, machines) for leg in found.legs]
    places = (source, *(leg.target for leg in found.legs))
    return RedistributionAnswer(
        mesh=list(source.mesh.axes), operators=list(operators), source=str(source.layout), target=str(target.layout),
        shape=list(source.shape), dtype=dtype, cluster=machines.name, steps=steps,
        slices=[slices_answer(held.layout, held.shape, held.mesh) for held in places],
        received_bytes=sum(step.received_bytes for step in steps),
        bound_bytes=None if bound is None else bound * size, peak_bytes=found.peak_elements * size,
        seconds=sum(step.seconds for step in steps), gap=None, bound_of_sums=False,
        staging_bytes=None,
    )  # fmt: skip


def _leg(leg: Leg, size: int, machines: ClusterSpec) -> RedistributionStep:
    mesh, step = leg.source.mesh, leg.step
    return RedistributionStep(
        kind=leg.kind, axes=list(leg.axes), dim=step.dim if step else -1, to_dim=step.to_dim if step else -1,
        group_size=mesh.size_of(leg.axes), source=str(leg.source.layout), target=str(leg.target.layout),
        source_shape=list(leg.source.local_shape(0)), target_shape=list(leg.target.local_shape(0)),
        received_bytes=leg_received(leg) * size, seconds=leg_seconds(leg, size, machines), why=leg_reason(leg),
        arrives=[[list(box) for box in boxes] for boxes in leg_arrivals(leg)],
    )  # fmt: skip


def _step(told: StepAccount, shape: tuple[int, ...], mesh: DeviceMesh) -> RedistributionStep:
    step = told.step
    return RedistributionStep(
        kind=step.kind, axes=list(step.axes), dim=step.dim, to_dim=step.to_dim, group_size=step.group_size,
        source=str(step.source), target=str(step.target), source_shape=list(step.source_shape),
        target_shape=list(step.target_shape), received_bytes=told.received_bytes, seconds=told.seconds,
        why=told.reason, arrives=[[list(box) for box in boxes] for boxes in arrivals(step, shape, mesh)],
    )  # fmt: skip
