"""What handlers work with: the settings, the stores, the evaluations at hand and the jobs of one server."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Header
from starlette.requests import Request

from planner import PlannerError
from planner.core.graph import ModelGraph
from planner.importers import load_zoo

from .answers import model_answer
from .evaluation import Evaluated, Evaluator
from .exported import Exports
from .imports import ImportQueue
from .jobs import Bundle, JobQueue
from .problems import Refusal
from .schemas import Job, Model
from .settings import Settings
from .store import Database, ModelStore, PlanStore, StoredPlan
from .traces import Traces


class Desk:
    """Everything that outlives a request."""

    def __init__(self, settings: Settings, bundle: Bundle | None = None) -> None:
        self.settings = settings
        self.database = Database(settings.database_url)
        self.models = ModelStore(self.database)
        self.plans = PlanStore(self.database)
        self.traces = Traces(None if settings.data is None else settings.data / "traces")
        self.evaluator = Evaluator(self.traces)
        self.exports = Exports()
        self.jobs = JobQueue(bundle)
        self.imports = ImportQueue(self.keep)

    def close(self) -> None:
        """End the jobs and close the database."""
        self.jobs.close()
        self.imports.close()
        self.database.close()

    def keep(self, graph: ModelGraph) -> Model:
        """Keep an imported model, and return it as it is answered."""
        self.evaluator.keep(graph)
        return model_answer(graph, self.models.add(graph.source).id)

    def job(self, job_id: str) -> Job | None:
        """Return a job of any kind."""
        return self.jobs.get(job_id) or self.imports.get(job_id)

    def cancel(self, job_id: str) -> Job | None:
        """Cancel a job of any kind."""
        return self.jobs.cancel(job_id) or self.imports.cancel(job_id)

    def graph(self, model_id: str) -> ModelGraph:
        """Return the graph of a model by its id; a name is looked up among those that come along, never as a file."""
        if (stored := self.models.get(model_id)) is not None:
            return self.evaluator.graph(stored.source)
        if model_id.startswith("sha256-"):
            raise PlannerError(
                "model.unknown-name", "There is no imported model with this id.", "Import its config.json.",
                subject=model_id,
            )  # fmt: skip
        return load_zoo(model_id)

    def plan(self, plan_id: str) -> StoredPlan:
        """Return a plan; a `Refusal` with 404 if there is none."""
        if (found := self.plans.get(plan_id)) is None:
            raise Refusal(404, "http.not-found", "There is no plan with this id.", "Load the list of plans again.")
        return found

    def evaluated(self, plan: StoredPlan) -> Evaluated:
        """Return the evaluation of a plan."""
        return self.evaluator.plan(plan.source, plan.decisions)


def desk(request: Request) -> Desk:
    """Return the desk of the application."""
    found: Desk = request.app.state.desk
    return found


def seen_version(
    if_match: Annotated[str | None, Header(alias="If-Match", description='The version, e.g. `"3"`.')] = None,
) -> int:
    """Return the version that `If-Match` names.

    Every change has to name the version that it was made on; `*` would overwrite what the client has not seen.
    """
    match = re.fullmatch(r'"(\d{1,9})"', if_match or "")
    if match is None:
        raise Refusal(
            428, "plan.version-required", "This request changes a plan and does not say which version it has seen.",
            'Send the ETag of the plan as the header If-Match, e.g. If-Match: "3".',
        )  # fmt: skip
    return int(match[1])


AppDesk = Annotated[Desk, Depends(desk)]
SeenVersion = Annotated[int, Depends(seen_version)]
