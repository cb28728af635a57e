"""Where the stages of a pipeline meet the rest: cut a plan's model into stages, and time what they cost.

```text
ModelGraph in one piece ── train, cost ───▸ cost of each layer ── schedules.partition ─▸ StageDecisions
ModelGraph, decisions   ── staging ───────▸ ModelGraph with stages
price of each stage     ── schedules ─────▸ Timeline
```
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from .assign import span
from .core.assignment import TrainingGraph
from .core.graph import ModelGraph
from .core.pipeline_view import PipelineView, UnitView
from .core.plan import Decisions, PipelineDecision, StageDecision
from .core.schedule import Schedule
from .core.timeline import StageTimes
from .cost import ONCE_A_RANK, Simulation, StagePrice, unit_times
from .errors import PlannerError, ScheduleError
from .plan import Plan
from .schedules import bubble, causes, course, part_count, partition, schedule_named, schedule_parts
from .staging import Places, decided, place, stage, unit_names, units

__all__ = ["Same", "decided_stages", "pipeline_view", "places_of", "simulated", "staged", "with_boundary"]

Train = Callable[[Plan], TrainingGraph]
"""What `compose.train` is: given from there."""


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """A graph as an object: comparing all that is in it would take longer than what is remembered about it."""

    graph: ModelGraph

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.graph is other.graph

    def __hash__(self) -> int:
        return id(self.graph)


def staged(plan: Plan, train: Train) -> ModelGraph:
    """Return the graph that is assigned: the plan's, cut into stages where it has a pipeline."""
    if plan.decisions.pipeline is None:
        return plan.graph
    return _staged(Same(plan.graph), decided_stages(plan, train), plan.parts)


def decided_stages(plan: Plan, train: Train) -> tuple[StageDecision, ...]:
    """Return what runs on which stage: what the plan says, or what is balanced."""
    pipeline = plan.decisions.pipeline
    if pipeline is None or pipeline.stages:
        return () if pipeline is None else pipeline.stages
    return _balanced(Same(plan.graph), replace(plan.decisions, pipeline=None), pipeline, train)


@lru_cache(maxsize=64)
def _staged(graph: Same, decisions: tuple[StageDecision, ...], count: int) -> ModelGraph:
    return stage(graph.graph, place(graph.graph, decisions, count, span), count)


@lru_cache(maxsize=256)
def _balanced(graph: Same, decisions: Decisions, pipeline: PipelineDecision, train: Train) -> tuple[StageDecision, ...]:
    """Return the stages with the least work on the busiest rank that keep within the memory, if any do."""
    plan = Plan(graph=graph.graph, decisions=decisions)
    costs = unit_times(train(plan), decisions, plan.cluster)
    ranks, microbatches = decisions.mesh.size(pipeline.axis), decisions.microbatches
    count = part_count(pipeline.schedule, ranks, microbatches, pipeline.per_rank)
    times = tuple(costs[unit.item, unit.layer] for unit in units(graph.graph))
    schedule = schedule_named(pipeline.schedule, ranks, microbatches, pipeline.per_rank)
    room = float(plan.cluster.device.memory_bytes - plan.cluster.device.reserved_bytes)
    # With two directions a rank holds two parts, and each part is on two ranks: the first direction stands for both.
    placement = schedule.placement[:count]
    try:
        cuts = partition(times, placement, (room,) * ranks, _in_flight(schedule)[:count]).cuts
    except ScheduleError as problem:
        if problem.code != "schedule.memory":
            raise
        cuts = partition(times, placement).cuts

    def at(chosen: tuple[StageDecision, ...]) -> Places:
        return place(graph.graph, chosen, count, span)

    return decided(graph.graph, cuts, at)


def pipeline_view(plan: Plan, train: Train) -> PipelineView | None:
    """Return the pipeline of a plan for drawing; None without one."""
    pipeline = plan.decisions.pipeline
    if pipeline is None:
        return None
    whole = replace(plan, decisions=replace(plan.decisions, pipeline=None))
    costs = unit_times(train(whole), whole.decisions, plan.cluster)
    listed, names = units(plan.graph), unit_names(plan.graph)
    weights = [costs[unit.item, unit.layer] for unit in listed]
    return PipelineView(
        axis=pipeline.axis, schedule=pipeline.schedule, per_rank=pipeline.per_rank, balanced=not pipeline.stages,
        stages=decided_stages(plan, train),
        units=tuple(
            UnitView(name=name, seconds=cost.work, resident=cost.resident)
            for name, cost in zip(names, weights, strict=True)
        ),
        cuts=_cuts(plan, train),
    )  # fmt: skip


def _cuts(plan: Plan, train: Train) -> tuple[int, ...] | None:
    places = place(plan.graph, decided_stages(plan, train), plan.parts, span)
    stages = [
        places.nodes[unit.item] if unit.item in places.nodes else places.layers[unit.item][unit.layer]
        for unit in units(plan.graph)
    ]
    if stages != sorted(stages):
        return None
    return (*(stages.index(stage) for stage in range(plan.parts)), len(stages))


def with_boundary(plan: Plan, stage: int, unit: int, train: Train) -> Plan:
    """Return the plan with a stage that begins at another unit.

    Raises
    ------
    PlannerError
        `pipeline.boundary` when the stage before or the stage itself would be left without a unit, or when the stages
        are no stretches of units.
    """
    pipeline, cuts = plan.decisions.pipeline, _cuts(plan, train) if plan.decisions.pipeline else None
    if pipeline is None or cuts is None:
        raise PlannerError(
            "pipeline.boundary", "The plan has no stages that follow each other, so none can begin elsewhere.",
            "Say which layers each stage runs.",
        )  # fmt: skip
    if not 0 < stage < plan.parts or not cuts[stage - 1] < unit < cuts[stage + 1]:
        raise PlannerError(
            "pipeline.boundary",
            f"Stage {stage} can't begin at unit {unit}: every one of the {plan.parts} stages needs one at least.",
            f"Use a unit from {cuts[stage - 1] + 1} to {cuts[stage + 1] - 1}."
            if 0 < stage < plan.parts
            else f"Name a stage from 1 to {plan.parts - 1}.",
        )

    def at(chosen: tuple[StageDecision, ...]) -> Places:
        return place(plan.graph, chosen, plan.parts, span)

    moved = (*cuts[:stage], unit, *cuts[stage + 1 :])
    stages = decided(plan.graph, moved, at)
    return replace(plan, decisions=replace(plan.decisions, pipeline=replace(pipeline, stages=stages)))


def places_of(plan: Plan) -> tuple[tuple[int, ...], ...]:
    """Return the ranks along the pipeline's axis that hold each part of the model."""
    pipeline = plan.decisions.pipeline
    assert pipeline is not None
    ranks = plan.decisions.mesh.size(pipeline.axis)
    schedule = schedule_named(pipeline.schedule, ranks, plan.decisions.microbatches, pipeline.per_rank)
    return tuple(
        tuple(sorted({schedule.placement[chain.stages[part]] for chain in schedule.chains}))
        for part in range(schedule.parts)
    )


def _in_flight(schedule: Schedule) -> tuple[int, ...]:
    """Return the most microbatches that each stage keeps at once."""
    held, most = [0] * len(schedule.placement), [0] * len(schedule.placement)
    for action in schedule.actions():
        held[action.stage] += (action.kind == "F") - (action.kind in "BW")
        most[action.stage] = max(most[action.stage], held[action.stage])
    return tuple(most)


def simulated(plan: Plan, stages: tuple[StagePrice, ...]) -> Simulation:
    """Return the timeline of the plan's stages, and what its bubble comes from."""
    pipeline, room = plan.decisions.pipeline, float(plan.cluster.device.memory_bytes)
    assert pipeline is not None
    ranks, count = plan.decisions.mesh.size(pipeline.axis), plan.decisions.microbatches
    # What lies on a rank once, whatever its stages, is taken off its room.
    once = max(sum(stage.priced.memory.get(item, 0.0) for item in ONCE_A_RANK) for stage in stages)

    times = tuple(stage.times for stage in stages)
    found = schedule_parts(pipeline.schedule, ranks, count, pipeline.per_rank, times, room - once)
    timeline = found.timeline
    schedule = timeline.schedule

    def end(kind: tuple[StageTimes, ...]) -> float:
        return course(schedule).makespan(tuple(kind[schedule.part_of(s)] for s in range(len(timeline.times))))

    ends = end(tuple(s.quickest for s in stages)), end(tuple(s.slowest for s in stages))
    split, shares = causes(timeline), bubble(timeline)
    useful = sum(timeline.times[s].work * len(chain.microbatches) for chain in schedule.chains for s in chain.stages)
    return Simulation(
        timeline=timeline, interval=ends, bound=found.bound, work=useful / ranks,
        ideal=split.ideal, imbalance=split.imbalance, recompute=split.recompute, communication=split.communication,
        bubbles=(("of_total", shares.of_total), ("of_useful", shares.of_useful), ("of_span", shares.of_span)),
        note=found.note,
    )  # fmt: skip
