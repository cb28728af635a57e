"""Operators of families that decoders do not have, put into one: composites that are cut where it costs parts."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

pytest.importorskip("torch")

from planner.compose import train
from planner.core.graph import Attribute, ModelGraph, Node
from planner.ops import OPS
from planner.plan import Plan
from planner.proof import Proof
from tests.tiny import inserted, tiny_graph, tiny_plan

from .conftest import Prove
from .small_models import Body, encoder, experts, images, latent, model, recurrent

ROOT, INNER = "model/put_in", "model.layers.*.mlp/put_in"
ATTENTION = "model.layers.*.self_attn/attention"
EXPERT = {"expert": ("a",), "batch": ()}
FIRST = {"batch": ("a",), "head": ()}
POOL = {"kernel": (3,), "stride": (1,), "padding": (1,)}


def put_in(op: str, **attributes: Attribute) -> ModelGraph:
    """Return a decoder with an operator on the embedding, and one on the output of each feed-forward."""
    places = {"model.embed_tokens": (ROOT, op, attributes), "model.layers.*.mlp.down_proj": (INNER, op, attributes)}
    return inserted(tiny_graph(), places)


def other_attention(op: str, **attributes: Attribute) -> ModelGraph:
    """Return a decoder with another kind of attention."""

    def changed(node: Node) -> Node:
        if node.op != "attention":
            return node
        return replace(node, op=op, attributes=tuple(attributes.items()))

    graph = tiny_graph()
    body = tuple(
        item
        if isinstance(item, Node)
        else replace(item, block=replace(item.block, body=tuple(changed(n) for n in item.block.nodes)))
        for item in graph.root.body
    )
    return replace(graph, root=replace(graph.root, body=body))


CASES: dict[str, tuple[ModelGraph, str, Mapping[str, tuple[str, ...]], set[str]]] = {
    "softmax": (put_in("softmax"), "put_in", {"k": ("a",)}, {"row_max", "sum_exp", "softmax_scale"}),
    "log_softmax": (put_in("log_softmax"), "put_in", {"k": ("b", "a")}, {"log_softmax_shift"}),
    "layer_norm": (put_in("layer_norm", eps=1e-5), "put_in", {"h": ("a",), "seq": ("b",)}, {"moments", "normalize"}),
    "l2_norm": (put_in("l2_norm", eps=1e-12), "put_in", {"k": ("b",)}, {"mean_square", "l2_scale"}),
    "gelu": (put_in("gelu", approximate="tanh"), "put_in", {"h": ("b",)}, set()),
    "max_pool": (put_in("max_pool", **POOL), "put_in", {"x": ("a",), "batch": ("b",)}, {"borders", "extend"}),
    "average_pool": (put_in("average_pool", **POOL), "put_in", {"x": ("a", "b")}, {"borders", "extend"}),
    "keys": (tiny_graph(), ATTENTION, {"key": ("a",)}, {"attention_scores", "hide_future", "attend"}),
    "keys and queries": (tiny_graph(), ATTENTION, {"key": ("a",), "seq": ("b",)}, {"hide_future", "attend"}),
    "window": (other_attention("window_attention", window=3), ATTENTION, {"seq": ("a",), "g": ("b",)}, set()),
    "keys of a window": (other_attention("window_attention", window=3), ATTENTION, {"key": ("b",)}, {"hide_future"}),
    "all keys": (other_attention("full_attention"), ATTENTION, {"key": ("b",), "g": ("a",)}, {"attend"}),
}
"""Graph, target, its factors, and parts that appear."""

MODELS: dict[str, tuple[Body, Mapping[str, Mapping[str, tuple[str, ...]]], set[str]]] = {
    "images": (images, {"*": {"batch": ("b",), "x": ("a",)}}, {"borders", "extend", "moments"}),
    "images, rows": (images, {"*": {"y": ("a",), "seq": ("a",)}, "conv": {"o": ("b",)}}, {"moments"}),
    "images, channels": (images, {"conv": {"i": ("a",)}, "deep": {"g": ("b",)}, "norm": {"c": ("a",)}}, set()),
    "experts": (experts, {"*": {"batch": ("a",)}, "up": EXPERT, "act": FIRST, "down": EXPERT}, {"expert_linear"}),
    "recurrent": (recurrent, {"*": {"batch": ("b", "a")}}, {"lstm", "gru", "rnn"}),
    "encoder": (encoder, {"norm": {"h": ("a",)}, "attention": {"key": ("a",), "g": ("b",)}}, {"normalize", "attend"}),
    "latent": (
        latent,
        {"attention": {"g": ("a",)}, "down": {"n": ("b",)}, "o": {"k": ("a",)}},
        {"attention", "expand"},
    ),
    "latent, keys": (latent, {"attention": {"key": ("b",)}, "k_turned": {"seq": ("a",)}}, {"attend", "concat"}),
    "encoder, queries": (encoder, {"*": {"seq": ("a",)}}, {"unknown"}),
}
"""Body of a model, factors of operators, and operators that appear."""


def model_plan(name: str) -> Plan:
    body, decisions, _ = MODELS[name]
    plan = tiny_plan("a:2,b:2", graph=model(name, body))
    for target, factors in decisions.items():
        plan = plan.shard(target, factors)
    return plan


def plan_of(name: str) -> Plan:
    graph, target, factors, _ = CASES[name]
    return tiny_plan("a:2,b:2", ("data_parallel", "a"), graph=graph).shard(target, factors)


@pytest.mark.parametrize("name", CASES)
def test_proven(name: str, prove_here: Callable[..., Proof]) -> None:
    plan = plan_of(name)
    found = {a.node.op for scope in train(plan).scopes for a in scope.assembly.nodes}
    assert CASES[name][3] <= found <= set(OPS)
    proof = prove_here(plan)
    assert proof.ok, proof.failures


@pytest.mark.parametrize("name", MODELS)
def test_small_models(name: str, prove_here: Callable[..., Proof]) -> None:
    plan = model_plan(name)
    found = {a.node.op for scope in train(plan).scopes for a in scope.assembly.nodes}
    assert MODELS[name][2] <= found
    proof = prove_here(plan)
    assert proof.ok, proof.failures


def test_batches_become_experts_by_all_to_all() -> None:
    """Expert parallelism is what two layouts come to; nothing in the planner knows it."""
    (root,) = train(model_plan("experts")).scopes
    there, back = (
        {d.redistribution.steps[0].kind for d in (*f.forward, *f.backward) if d.redistribution.steps}
        for f in root.fanouts
        if f.value in {"dispatch", "down"}
    )
    assert there == back == {"all_to_all"}


def test_an_unknown_operator_is_reported() -> None:
    findings = [d for d in train(model_plan("encoder")).assignment.diagnostics if d.code == "rule.op-unknown"]
    assert [d.subject for d in findings] == ["total"]
    assert "aten.cumsum.default" in findings[0].message


def test_a_rank_without_samples_takes_part_in_the_gradient_of_a_bias(prove_here: Callable[..., Proof]) -> None:
    """torch forgets the bias of an attention whose result is empty; the other ranks would wait for its gradient."""
    plan = tiny_plan("dp:3", ("data_parallel", "dp"), graph=model("encoder", encoder)).batch(
        global_batch=4, seq=8, microbatches=1
    )
    proof = prove_here(plan)
    assert proof.ok, proof.failures


def test_on_processes(prove: Prove) -> None:
    assert prove(plan_of("average_pool")).ok
