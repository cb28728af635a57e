"""Models: those that come along, and imported ones."""

from __future__ import annotations

from planner import PlannerError
from planner.importers import load_hf_config, load_zoo, zoo_names

from ..answers import model_answer
from ..desk import AppDesk
from ..limits import MAX_CONFIG
from ..problems import Refusal
from ..schemas import Model, NewModel
from . import api_router

router = api_router("models")


@router.get("/models")
def models(desk: AppDesk) -> list[Model]:
    """Return every model: first those that come along, then imported ones."""
    builtin = [model_answer(load_zoo(name), name) for name in zoo_names()]
    return builtin + [model_answer(desk.evaluator.graph(stored.source), stored.id) for stored in desk.models.all()]


@router.post("/models", status_code=201)
def import_model(new: NewModel, desk: AppDesk) -> Model:
    """Import a model from the text of its `config.json`."""
    if len(new.content.encode("utf-8", "surrogatepass")) > MAX_CONFIG:
        raise PlannerError(
            "model.too-large", f"The config is larger than {MAX_CONFIG:,} bytes.", "Give the config, not the weights."
        )
    graph = load_hf_config(new.content, new.name)
    return model_answer(graph, desk.models.add(graph.source).id)


@router.get("/models/{model_id}")
def model(model_id: str, desk: AppDesk) -> Model:
    """Return a model."""
    try:
        return model_answer(desk.graph(model_id), model_id)
    except PlannerError as error:
        raise Refusal(404, error.code, error.diagnostic.message, error.diagnostic.hint) from None
