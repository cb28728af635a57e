"""Plans: make, list, change, take back and forth, copy, delete."""

from __future__ import annotations

from starlette.responses import Response

from planner import Plan, PlannerError, compose

from ..answers import effect, plan_summary, state_answer
from ..changes import apply, label_of, mesh_of
from ..desk import AppDesk, Desk, SeenVersion
from ..limits import check_mesh
from ..schemas import CopyName, Edit, Effect, ImportedPlan, NewName, NewPlan, PlanState, PlanSummary, Trial
from ..store import StoredPlan, VersionConflict
from . import api_router

router = api_router("plans")


def _seen(plan: StoredPlan, version: int) -> StoredPlan:
    """Return the plan if it is at the version that the client has seen."""
    if plan.version != version:
        raise VersionConflict(plan.version)
    return plan


def _add(desk: Desk, name: str, plan: Plan) -> Response:
    """Keep a new plan and answer its state."""
    found = desk.evaluator.evaluate(plan)
    plan_id = desk.plans.add(name, plan.graph.source, plan.decisions, found.numbers)
    return state_answer(desk.plan(plan_id), found, status=201)


@router.get("/plans")
def plans(desk: AppDesk) -> list[PlanSummary]:
    """Return every plan, the one changed last first."""
    return [plan_summary(plan) for plan in desk.plans.all()]


@router.post("/plans", status_code=201, response_model=PlanState)
def new_plan(new: NewPlan, desk: AppDesk) -> Response:
    """Start a plan."""
    plan = Plan.new(
        desk.graph(new.model), cluster=new.cluster, mesh=mesh_of(new.mesh), global_batch=new.global_batch,
        seq=new.seq, microbatches=new.microbatches, precision=new.precision,
    )  # fmt: skip
    for preset in new.presets:
        plan = plan.preset(preset.name, **preset.axes)
    return _add(desk, new.name or f"{plan.graph.name} on {new.cluster}", plan)


@router.post("/plans/import", status_code=201, response_model=PlanState)
def import_plan(new: ImportedPlan, desk: AppDesk) -> Response:
    """Open a plan file."""
    plan = compose.read_plan(new.text)
    check_mesh(plan.decisions.mesh)
    return _add(desk, new.name or f"{plan.graph.name} on {plan.decisions.cluster}", plan)


@router.get("/plans/{plan_id}", response_model=PlanState)
def plan(plan_id: str, desk: AppDesk) -> Response:
    """Return a plan with its graph and numbers; the ETag is its version."""
    found = desk.plan(plan_id)
    return state_answer(found, desk.evaluated(found))


@router.patch("/plans/{plan_id}", response_model=PlanState)
def edit(plan_id: str, edit: Edit, version: SeenVersion, desk: AppDesk) -> Response:
    """Make changes, all or none, as one step of the history."""
    stored = _seen(desk.plan(plan_id), version)
    changed = apply(desk.evaluated(stored).plan, edit.changes)
    found = desk.evaluator.evaluate(changed)
    after = desk.plans.edit(stored, changed.decisions, edit.label or label_of(edit.changes), found.numbers)
    return state_answer(after, found)


def _step(desk: Desk, plan_id: str, version: int, steps: int) -> Response:
    stored = _seen(desk.plan(plan_id), version)
    decisions = desk.plans.neighbour(stored, steps)
    if decisions is None:
        back = steps < 0
        raise PlannerError(
            "plan.nothing-to-undo" if back else "plan.nothing-to-redo",
            f"There is no edit to {'take back' if back else 'make again'}.", "Load the plan again.",
        )  # fmt: skip
    found = desk.evaluator.plan(stored.source, decisions)
    return state_answer(desk.plans.move(stored, steps, found.numbers), found)


@router.post("/plans/{plan_id}/undo", response_model=PlanState)
def undo(plan_id: str, version: SeenVersion, desk: AppDesk) -> Response:
    """Take the last edit back."""
    return _step(desk, plan_id, version, -1)


@router.post("/plans/{plan_id}/redo", response_model=PlanState)
def redo(plan_id: str, version: SeenVersion, desk: AppDesk) -> Response:
    """Make the edit again that was taken back last."""
    return _step(desk, plan_id, version, 1)


@router.put("/plans/{plan_id}/name")
def rename(plan_id: str, new: NewName, desk: AppDesk) -> PlanSummary:
    """Give a plan another name; that is no edit, and its version stays."""
    desk.plans.rename(plan_id, new.name)
    return plan_summary(desk.plan(plan_id))


@router.post("/plans/{plan_id}/copy", status_code=201, response_model=PlanState)
def copy(plan_id: str, new: CopyName, desk: AppDesk) -> Response:
    """Copy a plan as it is now, without its history."""
    stored = desk.plan(plan_id)
    return _add(desk, new.name or f"{stored.name[:190]} (copy)", desk.evaluated(stored).plan)


@router.delete("/plans/{plan_id}", status_code=204, response_class=Response)
def remove(plan_id: str, desk: AppDesk) -> Response:
    """Delete a plan with its history."""
    desk.plan(plan_id)
    desk.plans.remove(plan_id)
    return Response(status_code=204)


@router.post("/plans/{plan_id}/what-if")
def what_if(plan_id: str, trial: Trial, desk: AppDesk) -> Effect:
    """Price changes without making them."""
    before = desk.evaluated(desk.plan(plan_id))
    return effect(before, desk.evaluator.evaluate(apply(before.plan, trial.changes)))
