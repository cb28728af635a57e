"""What follows from a plan: choices, report, figures and its file."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from planner import compose
from planner.core.report import Report
from planner.core.view import Choice
from planner.figures import FIGURES

from ..answers import download, json_answer, redistribution_answer, slices_answer
from ..desk import AppDesk
from ..problems import Refusal
from ..schemas import Figure, RedistributionAnswer, Slices
from . import api_router

router = api_router("results")


@router.get("/plans/{plan_id}/choices", response_model=list[Choice])
def choices(plan_id: str, node: Annotated[str, Query(max_length=500)], desk: AppDesk) -> Response:
    """Return what may be clicked at a node of the plan's view, by the node's id."""
    found = desk.evaluated(desk.plan(plan_id))
    return json_answer(compose.choices_at(found.plan, node, found.training), tuple[Choice, ...])


@router.get("/plans/{plan_id}/slices")
def slices(
    plan_id: str,
    node: Annotated[str, Query(max_length=500)],
    desk: AppDesk,
    slot: Annotated[str, Query(max_length=500)] = "",
) -> Slices:
    """Return which part each rank holds of an operand or result of a node, or of the value of an edge.

    `node` is the id of a node of the view, with a slot, or the id of an edge, without.
    """
    found = desk.evaluated(desk.plan(plan_id))
    layout, shape = compose.tensor_at(found.view, node, slot)
    return slices_answer(layout, shape, found.plan.decisions.mesh)


@router.get("/plans/{plan_id}/redistribution")
def redistribution(
    plan_id: str,
    edge: Annotated[str, Query(max_length=500)],
    desk: AppDesk,
    badge: Annotated[int, Query(ge=0, le=1000)] = 0,
) -> RedistributionAnswer:
    """Return the redistribution of the plan that a collective is a step of.

    `edge` is the id of an edge of the view, `badge` the position of the collective among its badges.
    """
    found = desk.evaluated(desk.plan(plan_id))
    moved = compose.moved(found.plan, edge, badge, found.training)
    return redistribution_answer(moved.redistribution, moved.dtype, found.plan.decisions.mesh, found.plan.cluster)


@router.get("/plans/{plan_id}/report", response_model=Report)
def report(plan_id: str, desk: AppDesk) -> Response:
    """Return the report: every number with the tree that explains it."""
    return json_answer(desk.evaluated(desk.plan(plan_id)).report, Report)


@router.get("/plans/{plan_id}/figures/{figure}")
def figure(plan_id: str, figure: str, desk: AppDesk) -> Figure:
    """Return a Plotly figure of the report."""
    if figure not in FIGURES:
        raise Refusal(404, "http.not-found", "There is no such figure.", f"Use one of: {', '.join(FIGURES)}.")
    return Figure(**FIGURES[figure].draw(desk.evaluated(desk.plan(plan_id)).report))


@router.get("/plans/{plan_id}/file", response_class=Response, responses={200: {"content": {"application/json": {}}}})
def file(plan_id: str, desk: AppDesk) -> Response:
    """Return the plan file, to be saved."""
    stored = desk.plan(plan_id)
    text = compose.plan_text(desk.evaluated(stored).plan)
    return download(text.encode(), "application/json", f"plan-{stored.id}.json")
