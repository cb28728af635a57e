"""The pipeline of a plan: its stages, when every rank does what, and what another schedule would do."""

from __future__ import annotations

import json
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from planner import PlannerError, compose
from planner.core.report import PipelineReport, Report
from planner.core.view import PlanView
from planner.figures import page
from planner.figures.pipeline import held, passes
from planner.schedules import trace_events, write_csv

from ..answers import download
from ..desk import AppDesk, Desk
from ..evaluation import Evaluated
from ..schemas import Figure, PipelineAnswer, PipelineNumbers, StageRow
from . import api_router

router = api_router("pipeline")

CAUSES = ("bubble of the schedule", "imbalance", "recompute", "messages", "after the last pass")


@router.get("/plans/{plan_id}/pipeline")
def pipeline(
    plan_id: str, desk: AppDesk, against: Annotated[str, Query(max_length=200)] = ""
) -> PipelineAnswer:  # fmt: skip
    """Return the pipeline of a plan; `against` is another schedule to compare with, on the same stages if they fit."""
    found, report = _pipeline(plan_id, desk)
    compared = [(found, report)]
    if against:
        decided = found.plan.decisions.pipeline
        assert decided is not None
        other = found.plan.pipelined(decided.axis, against)
        if other.parts == found.plan.parts:
            stages = {d.target: d.stage for d in compose.stages_of(found.plan)}
            per_rank = decided.per_rank if against in {"automatic", decided.schedule} else 0
            other = found.plan.pipelined(decided.axis, against, per_rank=per_rank, stages=stages)
        evaluated = desk.evaluator.evaluate(other)
        assert evaluated.report.pipeline is not None
        compared.append((evaluated, evaluated.report.pipeline))
    view = compose.pipeline_of(found.plan)
    assert view is not None
    lines = [each.timeline for _, each in compared]
    capacity = found.report.capacity_bytes
    return PipelineAnswer(
        view=view, numbers=[_numbers(each.report) for each, _ in compared], stages=_stages(report, found.view),
        passes=Figure(**passes(*lines)), held=[Figure(**held(line, capacity)) for line in lines],
    )  # fmt: skip


@router.get(
    "/plans/{plan_id}/pipeline/schedule.csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}, "description": "The order"}},
)
def pipeline_csv(plan_id: str, desk: AppDesk) -> Response:
    """Return the order of the stages as PyTorch's CSV, which its pipeline runtime loads."""
    _, report = _pipeline(plan_id, desk)
    return download(write_csv(report.timeline.schedule).encode(), "text/csv", "schedule.csv")


@router.get(
    "/plans/{plan_id}/pipeline/trace",
    response_class=Response,
    responses={200: {"content": {"application/json": {}}}},
)
def pipeline_trace(plan_id: str, desk: AppDesk) -> Response:
    """Return the timeline as trace events, which Perfetto opens."""
    _, report = _pipeline(plan_id, desk)
    text = json.dumps(trace_events(report.timeline))
    return download(text.encode(), "application/json", f"{report.timeline.schedule.name}.trace.json")


@router.get(
    "/plans/{plan_id}/pipeline/page",
    response_class=Response,
    responses={200: {"content": {"text/html": {}}, "description": "The page"}},
)
def pipeline_page(plan_id: str, desk: AppDesk) -> Response:
    """Return the picture of the timeline as a page that needs nothing else."""
    found, report = _pipeline(plan_id, desk)
    text = page(passes(report.timeline), f"{found.plan.graph.name}, {report.timeline.schedule.name}")
    return download(text.encode(), "text/html", f"{report.timeline.schedule.name}.html")


def _pipeline(plan_id: str, desk: Desk) -> tuple[Evaluated, PipelineReport]:
    found = desk.evaluated(desk.plan(plan_id))
    if found.report.pipeline is None:
        raise PlannerError(
            "pipeline.none", "The plan's model is in one piece.", "Cut it into stages along a mesh axis first."
        )
    return found, found.report.pipeline


def _numbers(report: Report) -> PipelineNumbers:
    pipeline = report.pipeline
    assert pipeline is not None
    schedule = pipeline.timeline.schedule
    return PipelineNumbers(
        schedule=schedule.name, microbatches=schedule.microbatches, step_time_s=report.step_time.value,
        bound_s=pipeline.bound, bubble=dict(pipeline.bubbles),
        causes={name: report.step_time.child(name).value for name in CAUSES},
        rank_memory_bytes=list(pipeline.rank_memory), capacity_bytes=report.capacity_bytes, note=pipeline.note,
    )  # fmt: skip


def _stages(report: PipelineReport, view: PlanView) -> list[StageRow]:
    ids: dict[str, str] = {node.name: node.id for node in view.nodes}
    ids |= {group.path: group.id for group in view.groups}
    return [
        StageRow(
            index=stage.index, ranks=list(stage.ranks), runs=list(stage.items),
            nodes=[ids[name] for name in stage.items if name in ids],
            forward_s=stage.times.forward,
            backward_s=stage.times.recompute + stage.times.backward_input + stage.times.backward_weight,
            send_s=stage.times.send_forward, activation_bytes=stage.times.activation,
            resident_bytes=stage.times.resident, memory_bytes=sum(size for _, size in stage.memory),
        )
        for stage in report.stages
    ]  # fmt: skip
