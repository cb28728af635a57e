"""The whole path: the stages as they meet. Read this first.

```text
file, config          ── importers ──────▸ ModelGraph
ModelGraph, pipeline  ── staging ────────▸ ModelGraph       cut into stages, if the plan has a pipeline
ModelGraph, decisions ── assign ─────────▸ Assignment       a strategy for every node
Assignment            ── redistribution ─▸ ShardedGraph     how every value gets to its readers
ShardedGraph          ── autodiff ───────▸ TrainingGraph    … and how every gradient comes back
TrainingGraph         ── cost ───────────▸ Report           time, memory, collectives, each number with its tree
  … with stages       ── cost, schedules ▸ Timeline, Report  of what each stage costs
Decisions             ◂─ document ───────▸ plan file
TrainingGraph         ── exporters ──────▸ bundle of files
```

After each stage `verify` holds the result to its invariant.
"""

from __future__ import annotations

from functools import lru_cache

from ..assign import assign
from ..autodiff import differentiate, fill_buckets
from ..core.assignment import TrainingGraph
from ..core.collective import Redistribution
from ..core.evaluated import EvaluatedPlan
from ..core.layout import Layout
from ..core.pipeline_view import PipelineView
from ..core.plan import StageDecision
from ..core.report import Report
from ..core.tensor import DTYPE_BYTES
from ..cost import evaluate as price_training
from ..cost import evaluate_pipeline, finding_of_batch, model_flops, price_stages
from ..errors import PlannerError
from ..hardware import precision as precision_named
from ..pipelining import Same, decided_stages, pipeline_view, places_of, simulated, staged, with_boundary
from ..plan import Plan
from ..redistribution import distribute
from ..schedules import SCHEDULES, write_csv
from ..verify import verify_graph, verify_schedule, verify_training
from .files import plan_text
from .redistributing import best_way

__all__ = ["evaluate", "evaluated", "move_boundary", "pipeline_of", "stages_of", "train"]


def train(plan: Plan) -> TrainingGraph:
    """Return every collective of a training step under the plan: stages 2, 3 and 4."""
    decisions = plan.decisions
    precision = precision_named(decisions.precision)
    meaning = {"compute": precision.compute, "gradient": precision.gradient}

    def plan_edge(source: Layout, target: Layout, shape: tuple[int, ...], dtype: str) -> Redistribution:
        element = DTYPE_BYTES[meaning.get(dtype, dtype)]
        wider = dtype == "compute" and DTYPE_BYTES[precision.sums] > element
        added_in = precision.sums if wider else ""
        return best_way(source, target, shape, element, decisions.mesh, decisions.cluster, added_in=added_in)

    graph = staged(plan, train)
    _hold_graph(Same(graph))
    assignment = assign(graph, decisions)
    sharded = distribute(assignment, plan_edge)
    training = differentiate(sharded, plan_edge)
    training = fill_buckets(training, decisions.gradients, DTYPE_BYTES[precision.gradient])
    _hold(verify_training(training))
    if decisions.pipeline and (finding := finding_of_batch(training, decisions)):
        raise PlannerError(finding.code, finding.message, finding.hint, subject=finding.subject)
    return training


def stages_of(plan: Plan) -> tuple[StageDecision, ...]:
    """Return what runs on which stage of the plan's pipeline: what it says, or what is balanced."""
    return decided_stages(plan, train)


def pipeline_of(plan: Plan) -> PipelineView | None:
    """Return the plan's pipeline for drawing; None without one."""
    return pipeline_view(plan, train)


def move_boundary(plan: Plan, stage: int, unit: int) -> Plan:
    """Return the plan with a stage that begins at another unit of `pipeline_of`."""
    return with_boundary(plan, stage, unit, train)


def evaluate(plan: Plan, training: TrainingGraph | None = None) -> Report:
    """Return step time, memory and collectives of the plan.

    Parameters
    ----------
    training
        What `train` gave for the plan, if it is at hand; likewise wherever one is taken.
    """
    training = training or train(plan)
    if plan.decisions.pipeline is None:
        return price_training(training, plan.decisions, plan.cluster)
    stages = price_stages(training, plan.decisions, plan.cluster, places_of(plan))
    return evaluate_pipeline(training, plan.decisions, plan.cluster, stages, simulated(plan, stages))


def evaluated(plan: Plan, training: TrainingGraph | None = None) -> EvaluatedPlan:
    """Return what code is written from."""
    training, schedule = training or train(plan), None
    if plan.decisions.pipeline is not None:
        stages = price_stages(training, plan.decisions, plan.cluster, places_of(plan))
        schedule = simulated(plan, stages).timeline.schedule
        _hold(verify_schedule(schedule))
    return EvaluatedPlan(
        training=training, graph=plan.graph, decisions=plan.decisions,
        precision=precision_named(plan.decisions.precision),
        cluster=plan.cluster, flops=model_flops(training) * plan.decisions.microbatches, text=plan_text(plan),
        schedule=schedule, schedule_text=write_csv(schedule) if schedule else "",
        torch_schedule=SCHEDULES[schedule.name].torch if schedule and schedule.name in SCHEDULES else "",
    )  # fmt: skip


@lru_cache(maxsize=64)
def _hold_graph(graph: Same) -> None:
    """Stop on a broken graph; one that holds is not looked at again for every edit."""
    _hold(verify_graph(graph.graph))


def _hold(findings: tuple[object, ...]) -> None:
    """Stop on a broken invariant: it is a fault of a stage or of an imported graph, not of the plan."""
    if findings:
        raise PlannerError("verify.broken", f"{len(findings)} invariants are broken; first: {findings[0]}")
