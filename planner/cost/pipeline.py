"""What the stages of a pipeline cost, and the report of a plan whose stages run as a timeline says.

A stage is priced as a training graph of its own (`core.portion`), by what prices a whole one. Its times for one
microbatch are

```text
forward     C_f + A_f + max(0, P_f − C_f)                       as in `step_time`, a microbatch's share
backward    C_b + A_b + max(0, P_b − C_b − R) + (G − hidden)    without what is deferred: that comes once, at the end
recompute   R
```

of which the part of the weight gradients can be run later (Qi et al. 2023, "Zero bubble pipeline parallelism"). A
value that goes to another stage is one message between two ranks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..core.assignment import TrainingGraph
from ..core.cluster import ClusterSpec
from ..core.plan import Decisions, Precision
from ..core.portion import portion, stage_of_items, stage_of_values
from ..core.report import CollectiveRow, CostItem, PipelineReport, Report, StageReport
from ..core.stage import RECEIVE, SEND_RECV
from ..core.timeline import StageTimes, Timeline
from ..errors import Diagnostic
from ..hardware import precision as named_precision
from .communication import Group, pairwise_seconds
from .compute import backward_time, peak_flops
from .copies import copy_rows
from .evaluate import Priced, over_capacity, price
from .explain import memory_tree
from .host_tree import host_together
from .items import ACTIVATIONS, LOSS, RECOMPUTED, RESERVED, TRANSIENT, Held, memory_bytes
from .step_time import StepSeconds
from .work import itemsize, model_flops

_IN_FLIGHT = frozenset({ACTIVATIONS, LOSS})
ONCE_A_RANK = frozenset({RECOMPUTED, RESERVED, TRANSIENT})
"""Items of which a rank has one, however many stages it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePrice:
    """The numbers of a stage.

    Parameters
    ----------
    times
        As estimated; `quickest` and `slowest` with all communication hidden that could be, and with none.
    sends
        Messages that bring values here, and their gradients back.
    copies
        Reductions among ranks that hold copies of its parameters.
    """

    priced: Priced
    times: StageTimes
    quickest: StageTimes
    slowest: StageTimes
    sends: tuple[CollectiveRow, ...]
    copies: tuple[CollectiveRow, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """What the schedule makes of the stages; parts of the makespan as in `schedules.Causes`."""

    timeline: Timeline
    interval: tuple[float, float]
    bound: float
    work: float
    ideal: float
    imbalance: float
    recompute: float
    communication: float
    bubbles: tuple[tuple[str, float], ...]
    note: str = ""


def price_stages(
    training: TrainingGraph, decisions: Decisions, cluster: ClusterSpec, places: Sequence[tuple[int, ...]]
) -> tuple[StagePrice, ...]:
    """Return the price of every stage of a plan with a pipeline.

    Parameters
    ----------
    places
        Ranks along the pipeline's axis that hold each part of the model.
    """
    assert decisions.pipeline is not None
    precision, count = named_precision(decisions.precision), decisions.microbatches
    portions = [portion(training, stage) for stage in range(len(training.assignment.graph.stages))]
    priced = [price(each, count, precision, cluster, decisions.gradients) for each in portions]
    messages = _messages(training, decisions, precision, cluster)
    copies = copy_rows(portions, places, decisions.pipeline.axis, precision, cluster)
    found = []
    for stage, (part, cost) in enumerate(zip(portions, priced, strict=True)):
        sends = tuple(row for _, target, row in messages if target == stage)
        out = sum(row.seconds for source, _, row in messages if source == stage and row.phase == "forward")
        back = sum(row.seconds for _, target, row in messages if target == stage and row.phase == "backward")
        late = _weight_share(part, cost, precision, cluster)
        shared = sum(row.seconds * row.count for row in copies[stage])
        estimate, quickest, slowest = (
            _times(cost, phases, late, count, out, back, shared) for phases in _phases(cost.seconds)
        )
        found.append(
            StagePrice(priced=cost, times=estimate, quickest=replace(quickest, send_forward=0.0, send_backward=0.0),
                       slowest=slowest, sends=sends, copies=copies[stage])
        )  # fmt: skip
    return tuple(found)


def _phases(s: StepSeconds) -> tuple[tuple[float, float], ...]:
    """Return the seconds of forward and backward: as estimated, with everything hidden, with nothing hidden."""
    estimate = (
        s.forward
        + s.activations_forward
        + s.parameters_forward
        - s.hidden_forward
        + s.host_forward
        - s.hidden_host_forward,
        s.backward
        + s.activations_backward
        + s.parameters_backward
        - s.hidden_backward
        + s.gradients
        - s.hidden_gradients
        + s.packing
        + s.host_backward
        - s.hidden_host_backward,
    )
    least = (
        max(s.forward, s.activations_forward + s.parameters_forward, s.host_forward),
        max(
            s.backward + s.packing,
            s.activations_backward + s.parameters_backward + s.gradients - s.recompute,
            s.host_backward - s.recompute,
        ),
    )
    most = (
        s.forward + s.activations_forward + s.parameters_forward + s.host_forward,
        s.backward + s.packing + s.activations_backward + s.parameters_backward + s.gradients + s.host_backward,
    )
    return estimate, least, most


def _times(
    cost: Priced, phases: tuple[float, float], late: float, microbatches: int, out: float, back: float, shared: float
) -> StageTimes:
    forward, backward = (seconds / microbatches for seconds in phases)
    held = cost.memory
    kept = sum(held[item] for item in _IN_FLIGHT)
    return StageTimes(
        forward=forward,
        backward_input=backward * (1 - late),
        backward_weight=backward * late,
        send_forward=out,
        send_backward=back,
        recompute=cost.seconds.recompute / microbatches,
        reduce=cost.seconds.deferred + cost.seconds.packing_deferred + cost.seconds.update + shared,
        optimizer=cost.seconds.optimizer + cost.seconds.host_update,
        activation=kept,
        # What a weight gradient needs is part of what the operators keep, and their graph is freed as a whole.
        weight_gradient=kept,
        resident=sum(size for item, size in held.items() if item not in _IN_FLIGHT | ONCE_A_RANK),
    )


def _weight_share(part: TrainingGraph, cost: Priced, precision: Precision, cluster: ClusterSpec) -> float:
    """Return which share of the backward computation are products for the gradients of parameters."""
    parameters = [{p.parameter.name for p in scope.assembly.parameters} for scope in part.scopes]
    for scope, own in zip(part.scopes[1:], parameters[1:], strict=True):
        own |= {inner for inner, outer in scope.assembly.operands if outer in parameters[0]}
    late = total = 0.0
    for work in cost.works:
        seconds = work.count * backward_time(work, precision, cluster.device).seconds
        total += seconds
        if work.op.product and work.gradients:
            weights = sum(work.node.operands[position] in parameters[work.scope] for position in work.gradients)
            late += seconds * weights / len(work.gradients)
    return late / total if total else 0.0


def _messages(
    training: TrainingGraph, decisions: Decisions, precision: Precision, cluster: ClusterSpec
) -> list[tuple[int, int, CollectiveRow]]:
    """Return source stage, target stage and row of every message, and of every gradient on its way back."""
    assert decisions.pipeline is not None
    axis, mesh = decisions.pipeline.axis, training.assignment.mesh
    of_item, made = stage_of_items(training), stage_of_values(training)
    root = training.scopes[0]
    wanted = {f.value for f in root.fanouts if f.gradient is not None}
    group = Group.of(mesh, (axis,), cluster)
    found = []
    for assigned in root.assembly.nodes:
        if assigned.node.op != RECEIVE:
            continue
        (result,), (layout,) = assigned.node.results, assigned.results
        source, target = made[assigned.node.operands[0]], of_item[assigned.node.name]
        elements = layout.local_elements(result.meta.concrete(training.assignment.symbols), mesh)
        size = elements * itemsize(result.meta.dtype, precision)
        phases = ("forward", "backward") if result.name in wanted else ("forward",)
        for phase in phases:
            row = CollectiveRow(
                scope="", phase=phase, value=assigned.node.operands[0], readers=(assigned.node.name,), kind=SEND_RECV,
                axes=(axis,), group_size=2, payload_bytes=size, wire_bytes=float(size),
                seconds=pairwise_seconds(size, 1, group, cluster), count=decisions.microbatches, source=str(layout),
                target=str(layout),
            )  # fmt: skip
            found.append((source, target, row))
    return found


def evaluate_pipeline(
    training: TrainingGraph, decisions: Decisions, cluster: ClusterSpec, stages: Sequence[StagePrice],
    simulation: Simulation,
) -> Report:  # fmt: skip
    """Return the report of a plan with a pipeline.

    Parameters
    ----------
    stages
        What `price_stages` gave.
    simulation
        What the schedule makes of their times.
    """
    precision, device = named_precision(decisions.precision), cluster.device
    timeline = simulation.timeline
    ranks = range(timeline.schedule.ranks)
    of_rank = {rank: _held_at_peak(timeline, rank, stages) for rank in ranks}
    fullest = max(ranks, key=lambda rank: sum(thing.total for thing in of_rank[rank]))
    tree = _tree(decisions, stages, simulation)
    flops = model_flops(training) * decisions.microbatches
    everything = training.assignment.mesh.device_count * peak_flops(precision.compute, device)
    rows = tuple(row for stage in stages for row in (*stage.priced.rows, *stage.sends, *stage.copies))
    order = {phase: index for index, phase in enumerate(("forward", "backward", "update"))}
    totals = memory_bytes(of_rank[fullest])
    return Report(
        step_time=tree,
        interval=simulation.interval,
        memory=memory_tree(of_rank[fullest]),
        capacity_bytes=device.memory_bytes,
        flops=flops,
        mfu=flops / (tree.value * everything),
        samples_per_second=decisions.global_batch / tree.value,
        tokens_per_second=decisions.global_batch * decisions.seq / tree.value if decisions.seq else None,
        collectives=tuple(sorted(rows, key=lambda row: order[row.phase])),
        diagnostics=(
            *training.assignment.diagnostics, *over_capacity(totals, cluster, f"pipeline rank {fullest}"),
        ),
        host=host_together(
            stages[part].priced.host
            for part in {timeline.schedule.part_of(stage): None for stage in timeline.schedule.stages_of(fullest)}
        ),
        pipeline=PipelineReport(
            timeline=timeline,
            stages=tuple(_stages(training, timeline, stages)),
            rank_memory=tuple(sum(thing.total for thing in of_rank[rank]) for rank in ranks),
            bound=simulation.bound,
            bubbles=simulation.bubbles,
            note=simulation.note,
        ),
    )  # fmt: skip


def _stages(training: TrainingGraph, timeline: Timeline, stages: Sequence[StagePrice]) -> Iterator[StageReport]:
    schedule = timeline.schedule
    for index, (names, stage) in enumerate(zip(training.assignment.graph.stages, stages, strict=True)):
        places = tuple(schedule.placement[s] for s in range(len(schedule.placement)) if schedule.part_of(s) == index)
        yield StageReport(
            index=index, ranks=places, items=names, times=stage.times,
            memory=tuple(stage.priced.memory.items()), flops=sum(
                work.count * (work.op.flops(*work.shapes) + work.backward_flops) for work in stage.priced.works
            ),
        )  # fmt: skip


def _held_at_peak(timeline: Timeline, rank: int, stages: Sequence[StagePrice]) -> tuple[Held, ...]:
    """Return what lies on a rank when most does: what a microbatch keeps, once for each that is under way."""
    under_way = _under_way(timeline, rank)
    schedule = timeline.schedule
    parts: dict[int, int] = {}
    for stage in schedule.stages_of(rank):
        part = schedule.part_of(stage)
        parts[part] = parts.get(part, 0) + under_way.get(stage, 0)
    things: list[Held] = []
    once: dict[str, list[Held]] = {}
    for part, count in parts.items():
        for thing in stages[part].priced.held:
            if thing.item in ONCE_A_RANK:
                once.setdefault(thing.item, []).append(thing)
            elif thing.item in _IN_FLIGHT:
                note = f"{thing.note}; {count} microbatches under way"
                things.append(replace(thing, count=thing.count * count, note=note))
            else:
                things.append(thing)
    return (*things, *(max(each, key=lambda thing: thing.total) for each in once.values()))


def _under_way(timeline: Timeline, rank: int) -> dict[int, int]:
    """Return, for the moment at which a rank holds most, stage → microbatches whose activations it keeps."""
    held: dict[int, int] = {}
    best: tuple[float, dict[int, int]] = (-1.0, {})
    for span in timeline.compute(rank):
        for action in span.actions:
            if action.kind == "F":
                held[action.stage] = held.get(action.stage, 0) + 1
        size = sum(timeline.times[stage].activation * count for stage, count in held.items())
        if size > best[0]:
            best = (size, dict(held))
        for action in span.actions:
            if action.kind in "BW":
                held[action.stage] -= 1
    return best[1]


def _tree(decisions: Decisions, stages: Sequence[StagePrice], simulation: Simulation) -> CostItem:
    timeline, count = simulation.timeline, decisions.microbatches
    named = {
        "work": "computation and exposed collectives of a rank, in the mean over the ranks of the pipeline",
        "bubble of the schedule": "waiting that equal stages and free messages would leave",
        "imbalance": "waiting because stages differ",
        "recompute": "forwards that are run again",
        "messages": "waiting for values from other stages",
    }
    parts = (
        simulation.work, simulation.ideal, simulation.imbalance, simulation.recompute, simulation.communication
    )  # fmt: skip
    ends = timeline.makespan - sum(parts)
    per_stage = tuple(_work(index, stage, count, timeline.schedule.ranks) for index, stage in enumerate(stages))
    children = [
        CostItem(name=name, value=value, unit="s", formula=formula, children=per_stage if name == "work" else ())
        for (name, formula), value in zip(named.items(), parts, strict=True)
    ]
    children.append(
        CostItem(name="after the last pass", value=ends, unit="s", formula="reduction of gradients and optimizer")
    )
    return CostItem(
        name="step time", value=sum(child.value for child in children), unit="s",
        formula=f"makespan of {timeline.schedule.name} on {timeline.schedule.ranks} ranks, simulated",
        children=tuple(children),
    )  # fmt: skip


def _work(index: int, stage: StagePrice, microbatches: int, ranks: int) -> CostItem:
    times = stage.times
    parts = (
        ("forward", times.forward),
        ("backward, gradients of inputs", times.backward_input),
        ("backward, gradients of weights", times.backward_weight),
    )
    return CostItem(
        name=f"stage {index}", value=times.work * microbatches / ranks, unit="s",
        formula=f"{microbatches} microbatches, shared over {ranks} ranks of the pipeline",
        children=tuple(
            CostItem(name=name, value=value * microbatches / ranks, unit="s", formula=f"{value:.3g} s a microbatch")
            for name, value in parts
        ),
    )  # fmt: skip


def finding_of_batch(training: TrainingGraph, decisions: Decisions) -> Diagnostic | None:
    """Return what is wrong with the batch of a pipeline: each rank has to get samples of every microbatch."""
    assignment = training.assignment
    for name, meta, layout in assignment.assemblies[0].inputs:
        shape = meta.concrete(assignment.symbols)
        if not layout.even(shape, assignment.mesh):
            shards = assignment.mesh.size_of(axis for axes in layout.dims for axis in axes)
            return Diagnostic(
                code="pipeline.batch",
                severity="error",
                subject=name,
                message=f"{decisions.global_batch} samples in {decisions.microbatches} microbatches can't be shared "
                f"evenly by {shards} shards of {name} ({layout} of {list(shape)}).",
                hint=f"Use a global batch that {shards * decisions.microbatches} divides.",
            )
    return None
