"""The code that a plan is exported as: its forms, its files, and what edits changed in it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from planner import PlannerError
from planner.exporters import EXPORTERS

from ..answers import download, json_answer
from ..archive import zip_of
from ..desk import AppDesk
from ..differences import differences
from ..problems import of_diagnostic
from ..schemas import Code, CodeDiff, CodeFile, CodeForm, HistoryStep
from ..store import HISTORY_STEPS
from . import api_router

router = api_router("code")

Form = Annotated[str, Query(max_length=40)]


@router.get("/plans/{plan_id}/forms")
def forms(plan_id: str, desk: AppDesk) -> list[CodeForm]:
    """Return the forms of exported code, each with the reason if this plan can't be written in it."""
    refusals = desk.exports.refusals(desk.evaluated(desk.plan(plan_id)))
    return [
        CodeForm(name=name, summary=EXPORTERS[name].summary, problem=None if why is None else of_diagnostic(why))
        for name, why in refusals.items()
    ]


@router.get("/plans/{plan_id}/code", response_model=Code)
def code(plan_id: str, desk: AppDesk, form: Form = "explicit") -> Response:
    """Return the exported code, with the nodes and edges of the view that its lines stand for."""
    found = desk.exports.write(desk.evaluated(desk.plan(plan_id)), form)
    files = [CodeFile(path=path, text=text) for path, text in found.files.items()]
    return json_answer(Code(form=form, files=files, marks=list(found.marks)))


@router.get(
    "/plans/{plan_id}/export.zip", response_class=Response, responses={200: {"content": {"application/zip": {}}}}
)
def export(plan_id: str, desk: AppDesk, form: Form = "explicit") -> Response:
    """Return the exported code as an archive, the same bytes for the same plan."""
    stored = desk.plan(plan_id)
    files = desk.exports.write(desk.evaluated(stored), form).files
    return download(zip_of(files), "application/zip", f"plan-{stored.id}.zip")


@router.get("/plans/{plan_id}/history")
def history(plan_id: str, desk: AppDesk) -> list[HistoryStep]:
    """Return the edits that the plan is the result of and that can be taken back, the last one first."""
    labels = desk.plans.labels(desk.plan(plan_id))
    return [HistoryStep(back=back, label=label) for back, label in enumerate(labels, start=1)]


@router.get("/plans/{plan_id}/code/diff")
def diff(
    plan_id: str, desk: AppDesk, form: Form = "explicit", back: Annotated[int, Query(ge=1, le=HISTORY_STEPS)] = 1
) -> CodeDiff:
    """Return what the last `back` edits changed in the exported code."""
    stored = desk.plan(plan_id)
    decisions = desk.plans.neighbour(stored, -back)
    if decisions is None:
        raise PlannerError(
            "plan.nothing-to-undo", f"The plan has no state {back} edits ago.", "Ask for one of its history."
        )
    before = desk.exports.write(desk.evaluator.plan(stored.source, decisions), form)
    after = desk.exports.write(desk.evaluated(stored), form)
    labels = desk.plans.labels(stored)[:back]
    return CodeDiff(form=form, labels=list(labels), files=differences(_own(before.files), _own(after.files)))


def _own(files: dict[str, str]) -> dict[str, str]:
    """Leave out what checks the bundle: it changes with it, and at other sizes."""
    return {name: text for name, text in files.items() if not name.startswith(("check/", "selfcheck.py"))}
