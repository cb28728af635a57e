"""Small plans of every kind of source: other sizes where the source has them, else fewer layers, within a bound."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from planner.compose import load_model
from planner.core.graph import ModelGraph, ModelSource
from planner.core.json_text import digest
from planner.errors import ProofError
from planner.importers import shrunk
from planner.importers.shrink import _new, _renamed
from planner.importers.sizes import Sizes, smaller
from planner.plan import Plan
from planner.proof.shrink import must_fit, shrink, uncovered
from planner.verify import verify_graph
from tests.tiny import tiny_config, tiny_graph, tiny_plan

SIZES = Sizes(layers=2, kv_heads=2, group=2, head_dim=8, ffn=16, vocab=24, hidden=32)


def from_a_file(graph: ModelGraph) -> ModelGraph:
    """Return the graph as if it had come from a file without sizes."""
    return replace(graph, source=ModelSource(name="file", kind="graph", digest=digest("{}"), content="{}"))


def test_a_graph_from_a_file_gets_fewer_layers_and_keeps_its_sizes() -> None:
    graph = from_a_file(tiny_graph(num_hidden_layers=5, hidden_size=48))
    plan = tiny_plan("dp:2,tp:2", ("zero3", "dp"), ("megatron", "tp"), graph=graph)
    small = shrink(plan, 4)
    (repeat,) = small.graph.root.repeats
    assert repeat.count == 2
    assert small.graph.root.parameters == graph.root.parameters
    assert uncovered(plan, small) == ()


def test_what_is_larger_than_the_bound_is_refused() -> None:
    graph = from_a_file(load_model("llama-3-8b"))
    plan = Plan.new(graph, cluster="1x8-h100-sxm", mesh="tp:8", global_batch=8, seq=64).preset("megatron", axis="tp")
    with pytest.raises(ProofError, match=r"need .* GiB; a proof takes at most 8.0 GiB") as found:
        shrink(plan)
    assert found.value.diagnostic.code == "proof.too-large"
    # Of its config a small one is made, which fits.
    must_fit(shrink(replace(plan, graph=load_model("llama-3-8b"))))


def test_ranges_of_layers_get_shorter_under_names_of_their_own() -> None:
    graph = from_a_file(tiny_graph(num_hidden_layers=6))
    names = {"model.layers.*": "model.layers.3-8"}
    modules = tuple(replace(module, path=_new(module.path, names)) for module in graph.modules)
    ranged = replace(graph, root=_renamed(graph.root, names | {"model.layers": "model.layers.3-8"}), modules=modules)
    assert verify_graph(ranged) == ()
    small = shrunk(ranged, layers=2, kv_heads=1, group=1, head_dim=1, ffn=1, vocab=1)
    (repeat,) = small.root.repeats
    assert (repeat.name, repeat.count, repeat.period) == ("model.layers.3-4", 2, 1)
    assert verify_graph(small) == ()
    assert {p.name.split(".")[2] for p in repeat.block.parameters} == {"3-4"}


CONFIG = {
    "model_type": "t5", "d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_decoder_layers": 12,
    "num_heads": 12, "vocab_size": 32128, "dropout_rate": 0.1,
}  # fmt: skip


def test_the_table_makes_configs_of_other_families_smaller() -> None:
    assert smaller(CONFIG, SIZES, "t5") == {
        "model_type": "t5", "d_model": 32, "d_kv": 8, "d_ff": 16, "num_layers": 2, "num_decoder_layers": 2,
        "num_heads": 4, "vocab_size": 24, "dropout_rate": 0.1,
    }  # fmt: skip


def test_every_kind_of_layer_stays() -> None:
    kinds = ["sliding", "sliding", "sliding", "full"] * 3
    made = smaller({"num_hidden_layers": 12, "layer_types": kinds, "text_config": CONFIG}, SIZES, "gemma")
    assert (made["num_hidden_layers"], made["layer_types"]) == (4, kinds[:4])
    assert made["text_config"] == smaller(CONFIG, SIZES, "gemma")
    dense_first = smaller({"num_hidden_layers": 61, "first_k_dense_replace": 3}, SIZES, "deepseek_v3")
    assert dense_first == {"num_hidden_layers": 4, "first_k_dense_replace": 2}


def test_a_direct_family_is_built_at_other_sizes() -> None:
    graph = load_model(json.dumps(tiny_config(num_hidden_layers=9)))
    small = shrink(tiny_plan("dp:2", ("zero3", "dp"), graph=graph), 2)
    assert small.graph.root.repeats[0].count == 2
    assert small.graph.source.kind == "hf_config"


def test_operators_that_the_small_model_lacks_are_told() -> None:
    plan = tiny_plan("dp:2", ("zero3", "dp"), graph=tiny_graph("qwen3", num_hidden_layers=3))
    other = tiny_plan("dp:2", ("zero3", "dp"), graph=tiny_graph("qwen2"))
    (note,) = (note for note in uncovered(plan, other) if "small model" in note)
    assert note.startswith("2 operators of the plan are not in the small model: model.layers.*.self_attn.q_norm")
    assert not [note for note in uncovered(plan, shrink(plan, 2)) if "small model" in note]
