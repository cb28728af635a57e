"""Models: those that come along, and imported ones."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query
from starlette.requests import Request

from planner import PlannerError
from planner.core.graph import ModelGraph
from planner.importers import load_at_once, load_zoo, zoo_names

from ..answers import model_answer
from ..desk import AppDesk
from ..limits import MAX_CONFIG
from ..problems import Refusal
from ..schemas import Job, Model, NewModel
from ..schemas.bounds import Title
from . import api_router

router = api_router("models")


@router.get("/models")
def models(desk: AppDesk) -> list[Model]:
    """Return every model: first those that come along, then imported ones."""
    builtin = [model_answer(load_zoo(name), name) for name in zoo_names()]
    return builtin + [model_answer(desk.evaluator.graph(stored.source), stored.id) for stored in desk.models.all()]


@router.post("/models", status_code=201)
def import_model(new: NewModel, desk: AppDesk) -> Model:
    """Import a model from the text of its `config.json`, if it need not be traced."""
    if len(new.content.encode("utf-8", "surrogatepass")) > MAX_CONFIG:
        raise PlannerError(
            "model.too-large", f"The config is larger than {MAX_CONFIG:,} bytes.", "Give the config, not the weights."
        )
    graph = load_at_once(new.content, new.name)
    if not isinstance(graph, ModelGraph):
        raise Refusal(
            422, "http.takes-long", f"{new.name} has to be traced, which takes longer than an answer may.",
            "Send it to /api/v1/models/import, and watch the job.",
        )  # fmt: skip
    return desk.keep(graph)


_FILE: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@router.post("/models/import", status_code=202, openapi_extra=_FILE)
async def import_file(name: Annotated[Title, Query()], request: Request, desk: AppDesk) -> Job:
    """Start to import a model from a file: a `config.json`, or any other that the importers read."""
    return desk.imports.add(await request.body(), name)


@router.get("/models/{model_id}")
def model(model_id: str, desk: AppDesk) -> Model:
    """Return a model."""
    try:
        return model_answer(desk.graph(model_id), model_id)
    except PlannerError as error:
        raise Refusal(404, error.code, error.diagnostic.message, error.diagnostic.hint) from None
