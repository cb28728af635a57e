"""Which stage everything runs on, and what is refused."""

from dataclasses import replace

import pytest

from planner.assign import span
from planner.core.graph import ModelGraph
from planner.core.plan import StageDecision
from planner.errors import PlannerError
from planner.staging import Places, place

from ..tiny import tiny_graph


def _graph(layers: int = 4) -> ModelGraph:
    return tiny_graph(num_hidden_layers=layers)


def _places(graph: ModelGraph, stages: dict[str, int], count: int) -> Places:
    decisions = tuple(StageDecision(target=target, stage=stage) for target, stage in stages.items())
    return place(graph, decisions, count, span)


def test_the_head_follows_the_last_layer_and_the_embedding_goes_where_it_is_read():
    places = _places(_graph(), {"layers.0-1": 0, "layers.2-3": 1}, 2)
    assert places.layers == {"model.layers": (0, 0, 1, 1)}
    assert places.nodes["model.embed_tokens"] == 0
    assert {places.nodes[name] for name in ("model.norm", "lm_head", "loss")} == {1}


def test_what_depends_on_no_parameter_is_computed_where_it_is_read():
    assert _places(_graph(), {"layers.0-1": 0, "layers.2-3": 1}, 2).shared == {"model.rotary_emb": (0, 1)}


def test_later_decisions_win():
    places = _places(_graph(), {"layers.*": 0, "layers.1-3": 1, "layers.3": 2}, 3)
    assert places.layers["model.layers"] == (0, 1, 1, 2)


def test_the_head_can_have_a_stage_of_its_own():
    places = _places(_graph(), {"layers.0-1": 0, "layers.2-3": 1, "lm_head": 2}, 3)
    assert (places.nodes["model.norm"], places.nodes["lm_head"], places.nodes["loss"]) == (1, 2, 2)


@pytest.mark.parametrize(
    ("stages", "count", "code", "says"),
    [
        ({"layers.0-1": 0, "layers.2-3": 2}, 3, "pipeline.stage-empty", "Stage 1 of 3 has nothing to run."),
        ({"layers.0-1": 1, "layers.2-3": 0}, 2, "pipeline.backward-edge", "model.layers.1 runs on stage 1, and "),
        ({"layers.0-1": 0, "lm_head": 1}, 2, "pipeline.layer-dropped", "No stage runs model.layers.2-3."),
        ({"layers.0-1": 0, "layers.2-3": 5}, 2, "pipeline.stage-unknown", "stage 5, and there are the stages 0 to 1"),
        ({"layers.*": 0, "no.such": 1}, 2, "pipeline.target-unmatched", "'no.such', for stage 1, names nothing"),
        ({"layers.*": 0, "layers.2.mlp": 1}, 2, "pipeline.inside-layer", "a layer runs on one stage as a whole"),
        ({"layers.*": 1, "embed_tokens": 0, "lm_head": 0}, 2, "pipeline.backward-edge", "on the earlier stage 0"),
    ],
)
def test_refused(stages: dict[str, int], count: int, code: str, says: str):
    with pytest.raises(PlannerError) as caught:
        _places(_graph(), stages, count)
    assert caught.value.code == code
    assert says in caught.value.diagnostic.message
    assert caught.value.diagnostic.hint


def test_the_loss_is_on_the_last_stage():
    graph = _graph()
    # A second output after the loss would be needed to put something behind it: here the loss itself is held back.
    body = tuple(item for item in graph.root.body if item.name != "loss")
    cut = replace(graph, root=replace(graph.root, body=body, outputs=("model.norm",)))
    with pytest.raises(PlannerError, match=r"loss of .* is computed on stage 0"):
        _places(cut, {"layers.*": 0, "lm_head": 1}, 2)
