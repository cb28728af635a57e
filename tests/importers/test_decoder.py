"""The graph of a decoder: published sizes, names, structure."""

import pytest

from planner.core.graph import Node
from planner.core.symbol import symbol
from planner.importers import IMPORTERS, load_model, load_source, shrunk, zoo_names
from planner.importers.bundled import bundled_names

# As the model cards and the safetensors indices say, equal to the last parameter.
PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    # 96 layers of 12·h² + 13·h, a table of 50257 + 2048 rows, the last norm.
    "gpt3-175b": 96 * (12 * 12288**2 + 13 * 12288) + (50257 + 2048) * 12288 + 2 * 12288,
    "llama-2-7b": 6_738_415_616,
    "llama-3-70b": 70_553_706_496,
    "llama-3-8b": 8_030_261_248,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "mistral-7b-v0.1": 7_241_732_096,
    "mistral-7b-v0.3": 7_248_023_552,
    "mixtral-8x7b": 46_702_792_704,
    "qwen3-235b-a22b": 235_093_634_560,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-8b": 8_190_735_360,
}


DIRECT = [name for name in zoo_names() if name not in bundled_names()]


def test_every_published_model_has_its_count_here() -> None:
    assert set(DIRECT) - set(PUBLISHED) == {"llama-tiny"}


@pytest.mark.parametrize(("name", "count"), PUBLISHED.items())
def test_parameter_count(name: str, count: int) -> None:
    assert load_model(name).parameter_count == count


def layer_nodes(name: str) -> dict[str, Node]:
    return {node.name: node for node in load_model(name).root.repeats[0].block.nodes}


def test_structure_of_llama() -> None:
    graph = load_model("llama-3-8b")
    assert [(item.name, getattr(item, "op", "repeat")) for item in graph.root.body] == [
        ("model.embed_tokens", "embedding"),
        ("model.rotary_emb", "rotary_table"),
        ("model.layers", "repeat"),
        ("model.norm", "rms_norm"),
        ("lm_head", "linear"),
        ("loss", "cross_entropy"),
    ]
    (layers,) = graph.root.repeats
    assert (layers.count, [value.name for value in layers.block.inputs]) == (
        32,
        ["hidden", "cos", "sin"],
    )
    assert layers.operands == ("model.embed_tokens", "model.rotary_emb", "model.rotary_emb:1")
    assert [(node.name.removeprefix("model.layers.*"), node.op) for node in layers.block.nodes] == [
        (".input_layernorm", "rms_norm"),
        (".self_attn.q_proj", "linear"),
        (".self_attn/split_q", "split_heads"),
        (".self_attn/rotary_q", "rotary"),
        (".self_attn.k_proj", "linear"),
        (".self_attn/split_k", "split_heads"),
        (".self_attn/rotary_k", "rotary"),
        (".self_attn.v_proj", "linear"),
        (".self_attn/split_v", "split_heads"),
        (".self_attn/attention", "attention"),
        (".self_attn/merge_heads", "merge_heads"),
        (".self_attn.o_proj", "linear"),
        ("/residual_attention", "add"),
        (".post_attention_layernorm", "rms_norm"),
        (".mlp.gate_proj", "linear"),
        (".mlp.up_proj", "linear"),
        (".mlp/swiglu", "swiglu"),
        (".mlp.down_proj", "linear"),
        ("/residual_mlp", "add"),
    ]
    assert graph.logits == "lm_head"
    assert dict(graph.root.nodes[-1].attributes) == {"ignore_index": -100}


def test_both_additions_read_the_residual_stream() -> None:
    nodes = layer_nodes("llama-3-8b")
    first = nodes["model.layers.*/residual_attention"]
    assert first.operands == ("hidden", "model.layers.*.self_attn.o_proj")
    assert nodes["model.layers.*/residual_mlp"].operands == (
        first.name,
        "model.layers.*.mlp.down_proj",
    )


def test_shapes_of_grouped_attention() -> None:
    nodes = layer_nodes("llama-3-8b")
    batch, seq = symbol("B"), symbol("S")
    attention = nodes["model.layers.*.self_attn/attention"]
    assert attention.results[0].meta.shape == (batch, 32, seq, 128)
    assert nodes["model.layers.*.self_attn/rotary_k"].results[0].meta.shape == (batch, 8, seq, 128)
    assert (attention.rule.size("g"), attention.rule.size("r")) == (8, 4)
    assert nodes["model.layers.*.mlp/swiglu"].results[0].meta.shape == (batch, seq, 14336)


def test_qwen3_norms_each_head_before_rotation() -> None:
    nodes = layer_nodes("qwen3-8b")
    norm = nodes["model.layers.*.self_attn.q_norm"]
    assert norm.operands[0] == "model.layers.*.self_attn/split_q"
    assert nodes["model.layers.*.self_attn/rotary_q"].operands[0] == norm.name
    assert norm.rule.size("h") == 128


def test_qwen2_has_biases_on_q_k_and_v_only() -> None:
    (layers,) = load_model("qwen2.5-7b").root.repeats
    biases = [p.name for p in layers.block.parameters if p.name.endswith(".bias")]
    assert biases == [f"model.layers.*.self_attn.{part}_proj.bias" for part in "qkv"]
    initial = {p.name: p.initial for p in layers.block.parameters}
    assert initial["model.layers.*.self_attn.q_proj.bias"] == "zeros"
    assert initial["model.layers.*.input_layernorm.weight"] == "ones"


def test_a_tied_head_reads_the_embedding() -> None:
    graph = load_model("llama-3.2-1b")
    head = graph.root.nodes[-2]
    assert head.operands == ("model.norm", "model.embed_tokens.weight")
    assert "lm_head.weight" not in [p.name for p in graph.root.parameters]


def test_rotary_attributes() -> None:
    assert dict(load_model("llama-3-8b").root.nodes[1].attributes) == {
        "head_dim": 128,
        "theta": 500_000.0,
    }
    assert dict(load_model("llama-3.1-405b").root.nodes[1].attributes) == {
        "head_dim": 128,
        "theta": 500_000.0,
        "rope_factor": 8.0,
        "rope_low_frequency": 1.0,
        "rope_high_frequency": 4.0,
        "rope_original_length": 8192,
    }


@pytest.mark.parametrize("name", zoo_names())
def test_the_source_rebuilds_an_equal_graph(name: str) -> None:
    graph = load_model(name)
    assert load_source(graph.source) == graph
    assert IMPORTERS[graph.source.kind].load(graph.source.content, name) == graph


@pytest.mark.parametrize("name", DIRECT)
def test_shrunk_keeps_names_operators_and_ties(name: str) -> None:
    graph = load_model(name)
    small = shrunk(graph, layers=2, kv_heads=2, group=3, head_dim=4, ffn=10, vocab=14)
    (big_layers,), (layers,) = graph.root.repeats, small.root.repeats

    def skeleton(nodes: tuple[Node, ...]) -> list[object]:
        return [(n.name, n.op, n.operands, [v.name for v in n.results], n.module) for n in nodes]

    assert skeleton(small.root.nodes) == skeleton(graph.root.nodes)
    assert skeleton(layers.block.nodes) == skeleton(big_layers.block.nodes)
    assert (small.modules, layers.count) == (graph.modules, 2)
    assert load_source(small.source) == small
    shapes = {p.name: p.meta.shape for p in (*small.root.parameters, *layers.block.parameters)}
    if name.startswith("gpt"):
        assert shapes["transformer.wte.weight"] == (14, 24)
        assert shapes["transformer.h.*.attn.c_attn.weight"] == (24, 3, 24)
        assert shapes["transformer.h.*.mlp.c_proj.weight"] == (10, 24)
        return
    assert shapes["model.embed_tokens.weight"] == (14, 24)
    assert shapes["model.layers.*.self_attn.q_proj.weight"] == (24, 24)
    assert shapes["model.layers.*.self_attn.k_proj.weight"] == (8, 24)
    if "model.layers.*.mlp.gate.weight" in shapes:
        assert shapes["model.layers.*.mlp.experts.gate_up_proj"] == (8, 2, 10, 24)
    else:
        assert shapes["model.layers.*.mlp.down_proj.weight"] == (24, 10)


def test_shrunk_to_a_stream_narrower_than_the_heads() -> None:
    small = shrunk(
        load_model("qwen3-8b"),
        layers=1, kv_heads=2, group=2, head_dim=8, ffn=8, vocab=8, hidden=20,
    )  # fmt: skip
    shapes = {p.name: p.meta.shape for p in small.root.repeats[0].block.parameters}
    assert shapes["model.layers.*.self_attn.q_proj.weight"] == (32, 20)
    assert shapes["model.layers.*.self_attn.o_proj.weight"] == (20, 32)
