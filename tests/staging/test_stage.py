"""A graph that was cut computes the same: its operators are the model's, between messages."""

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.assign import span
from planner.compose import load_model
from planner.core.graph import ModelGraph, Repeat
from planner.core.layers import Layers, list_of
from planner.core.plan import StageDecision
from planner.core.stage import plain
from planner.staging import place, stage
from planner.verify import verify_graph

from ..tiny import tiny_graph


def _cut(graph: ModelGraph, bounds: list[int], path: str = "layers") -> ModelGraph:
    decisions = tuple(
        StageDecision(target=f"{path}.{start}-{stop - 1}" if stop - start > 1 else f"{path}.{start}", stage=index)
        for index, (start, stop) in enumerate(pairwise(bounds))
    )
    count = len(bounds) - 1
    return stage(graph, place(graph, decisions, count, span), count)


def _layers(graph: ModelGraph) -> list[int]:
    """Return the layers that the repeats run, in order."""
    found: list[int] = []
    for item in graph.root.body:
        if isinstance(item, Repeat):
            layers = list_of(item.name)[1] or Layers(0, item.count)
            found += [layers.index(i) for i in range(layers.count)]
    return found


@given(st.integers(2, 9).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(1, n - 1), min_size=1))))
@settings(max_examples=20, deadline=None)
def test_every_layer_once_in_order(case: tuple[int, set[int]]):
    count, inner = case
    graph = tiny_graph(num_hidden_layers=count)
    cut = _cut(graph, [0, *sorted(inner), count])
    assert not verify_graph(cut)
    assert _layers(cut) == list(range(count))
    assert cut.parameter_count == graph.parameter_count
    assert len(cut.stages) == len(inner) + 1
    assert Counter(name for names in cut.stages for name in names) == Counter(item.name for item in cut.root.body)


def test_one_message_a_boundary_and_own_tables_on_each_stage():
    cut = _cut(tiny_graph(num_hidden_layers=4), [0, 1, 4])
    received = [item for item in cut.root.body if not isinstance(item, Repeat) and item.op == "receive"]
    assert [(node.operands, node.name) for node in received] == [
        (("model.layers.0-0",), "model.layers.0-0@stage1")
    ]  # fmt: skip
    assert "model.rotary_emb@stage1" in cut.stages[1]


def test_a_tied_embedding_has_a_copy_on_the_last_stage():
    cut = _cut(tiny_graph(tied=True, num_hidden_layers=4), [0, 2, 4])
    copies = [p.name for p in cut.root.parameters if plain(p.name) == "model.embed_tokens.weight"]
    assert copies == ["model.embed_tokens.weight", "model.embed_tokens.weight@stage1"]
    assert not verify_graph(cut)


def test_what_all_layers_read_comes_once_to_each_stage():
    # Cross-attention: every decoder layer reads what the encoder made.
    graph = load_model("t5-base")
    targets = {"encoder": 0, "decoder.block.*": 1, "decoder.block.11": 2}
    decisions = tuple(StageDecision(target=target, stage=number) for target, number in targets.items())
    cut = stage(graph, place(graph, decisions, 3, span), 3)
    assert not verify_graph(cut)
    received = [item.name for item in cut.root.body if not isinstance(item, Repeat) and item.op == "receive"]
    encoded = [name for name in received if name.startswith("encoder")]
    assert Counter(name.rpartition("@stage")[2] for name in encoded) == {"1": 1, "2": 1}


@pytest.mark.parametrize("name", ["gpt2", "bert-base", "vit-l-16"])
def test_other_models_are_cut_too(name: str):
    graph = load_model(name)
    (repeat,) = [r for r in graph.root.repeats if r.count > 4]
    path = ".".join(list_of(repeat.name)[0].split(".")[-2:])
    first = (list_of(repeat.name)[1] or Layers(0, 1)).first
    last = first + repeat.count * repeat.period
    cut = _cut(graph, [first, first + 3, last], path)
    assert not verify_graph(cut)
