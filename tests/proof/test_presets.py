"""The products of the presets, on every architecture, equal the unsharded model on every rank."""

from collections.abc import Callable

import numpy as np
import pytest

from planner.compose import train
from planner.errors import PlannerError
from planner.plan import Plan
from planner.proof import Proof
from tests.properties.strategies import shard
from tests.tiny import MODELS, tiny_gpt2, tiny_graph, tiny_plan

pytest.importorskip("torch")
from planner.exporters.runtime.data import Feed, synthetic_batch

PLANS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "dp4": ("dp:4", (("data_parallel", "dp"),)),
    "tp4": ("tp:4", (("megatron", "tp"),)),
    "tp4-sp": ("tp:4", (("megatron", "tp"), ("sequence_parallel", "tp"))),
    "zero4": ("dp:4", (("zero3", "dp"),)),
    "zero1-dp4": ("dp:4", (("zero1", "dp"),)),
    "zero2-dp2-tp2": ("dp:2,tp:2", (("zero2", "dp"), ("megatron", "tp"))),
    "dp2-tp2": ("dp:2,tp:2", (("data_parallel", "dp"), ("megatron", "tp"))),
    "dp2-tp2-sp": ("dp:2,tp:2", (("data_parallel", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))),
    "zero2-tp2-sp": ("dp:2,tp:2", (("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"))),
    "dp2-tp2-dp2": ("dp:2,tp:2,rep:2", (("data_parallel", "dp"), ("data_parallel", "rep"), ("megatron", "tp"))),
    "zero2-tp2-dp2": (
        "rep:2,dp:2,tp:2",
        (("data_parallel", "rep"), ("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp")),
    ),
}


def assert_proven(proof: Proof) -> None:
    """Check loss and every gradient on every rank, and that the planned collectives ran."""
    assert proof.failures == ()
    assert [f"{row.name}: {row.error:.1e} on rank {row.rank}" for row in proof.rows if not row.ok] == []
    assert proof.collectives == ()
    assert proof.ok


# What ties and biases do is independent of each other, so not every product of both is quick.
QUICK = {("llama", False), ("llama", True), ("llama-biased", False), ("llama-biased", True), ("qwen2", False),
         ("qwen3-biased", True), ("mistral-window", False), ("mixtral", False)}  # fmt: skip
VARIANTS = [
    pytest.param(model, tied, id=f"{model}{'-tied' * tied}", marks=() if (model, tied) in QUICK else pytest.mark.slow)
    for model in MODELS
    for tied in (False, True)
]


@pytest.mark.parametrize(("model", "tied"), VARIANTS)
@pytest.mark.parametrize("name", PLANS)
def test_preset(prove_here: Callable[..., Proof], name: str, model: str, tied: bool) -> None:
    mesh, presets = PLANS[name]
    graph = tiny_graph(model, tied=tied)
    proof = prove_here(tiny_plan(mesh, *presets, graph=graph))
    assert_proven(proof)
    layers = sum(repeat.count * len(repeat.block.parameters) for repeat in graph.root.repeats)
    assert len(proof.rows) == 1 + layers + len(graph.root.parameters)


EXPERTS: dict[str, tuple[str, tuple[tuple[str, str], ...]]] = {
    "ep4": ("ep:4", (("data_parallel", "ep"), ("expert_parallel", "ep"))),
    "zero2-ep2": ("dp:2,ep:2", (("zero3", "dp"), ("data_parallel", "ep"), ("expert_parallel", "ep"))),
    "ep2-tp2-sp": (
        "ep:2,tp:2",
        (("data_parallel", "ep"), ("expert_parallel", "ep"), ("megatron", "tp"), ("sequence_parallel", "tp")),
    ),
    "ep2-whole-batch": ("ep:2", (("expert_parallel", "ep"),)),
}


@pytest.mark.parametrize("model", ["mixtral", "qwen3-experts"])
@pytest.mark.parametrize("name", EXPERTS)
def test_experts(prove_here: Callable[..., Proof], name: str, model: str) -> None:
    """Each rank has its experts alone, and with its share of the batch too, tokens change ranks twice a layer."""
    mesh, presets = EXPERTS[name]
    plan = tiny_plan(mesh, *presets, graph=tiny_graph(model))
    if "dp" in mesh:
        plan = plan.shard("mlp.experts.gate_up", {"b": ("dp",)})
    training = train(plan)
    stored = {p.parameter.name: p.storage for a in training.assignment.assemblies for p in a.parameters}
    assert "ep" in stored["model.layers.*.mlp.experts.down_proj"].dims[0]
    assert "ep" in stored["model.layers.*.mlp.experts.gate_up_proj"].dims[0]
    moved = {
        (fanout.value.rpartition("/")[2], step.kind)
        for scope in training.scopes
        for fanout in scope.fanouts
        for done in (*fanout.forward, *fanout.backward)
        for step in done.redistribution.steps
    }
    to_experts = {value for value, kind in moved if kind in {"all_to_all", "exchange"}}
    assert {"dispatch", "down"} <= to_experts or ("data_parallel", "ep") not in presets
    if name in {"ep4", "zero2-ep2"}:
        assert {("dispatch", "all_to_all"), ("down", "all_to_all")} <= moved
    assert_proven(prove_here(plan))


def test_experts_of_a_model_without() -> None:
    with pytest.raises(PlannerError) as caught:
        train(tiny_plan("ep:4", ("expert_parallel", "ep")))
    assert caught.value.code == "plan.target-unmatched"


@pytest.mark.parametrize("dropped", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PLANS)
def test_gpt2(prove_here: Callable[..., Proof], name: str, dropped: bool) -> None:
    """The same presets on its modules, with heads in the fused projection, and with dropout everywhere."""
    mesh, presets = PLANS[name]
    changes = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.25 * dropped)
    plan = tiny_plan(mesh, *presets, graph=tiny_gpt2(**changes))
    assert [d for d in train(plan).assignment.diagnostics if d.code == "plan.target-unmatched"] == []
    assert_proven(prove_here(plan))


ON_PROCESSES = ("dp4", "tp4-sp", "zero2-tp2-sp", "zero2-tp2-dp2")
"""Batch, widths, sequence and storage are cut, on four ranks and on eight; threads take all plans."""


@pytest.mark.parametrize("name", [n if n in ON_PROCESSES else pytest.param(n, marks=pytest.mark.slow) for n in PLANS])
def test_preset_on_processes(prove: Callable[..., Proof], name: str) -> None:
    """What threads prove, processes joined by gloo prove."""
    test_preset(prove, name, "llama-biased", True)


@pytest.mark.parametrize("presets", [("megatron",), ("megatron", "sequence_parallel"), ("zero3", "megatron")])
@pytest.mark.parametrize("model", MODELS)
def test_fewer_key_value_heads_than_ranks(
    prove_here: Callable[..., Proof], model: str, presets: tuple[str, ...]
) -> None:
    """The axis is split 2×2: k and v lie over the first part and are replicated over the second."""
    graph = tiny_graph(model, num_key_value_heads=2)
    axes = [(name, "dp" if name == "zero3" else "tp") for name in presets]
    mesh = "dp:2,tp:4" if "zero3" in presets else "tp:4"
    plan = tiny_plan(mesh, *axes, graph=graph)
    assert plan.decisions.mesh.names[-2:] == ("tp0", "tp1")
    assert dict(plan.decisions.mesh.axes)["tp0"] == 2
    assert_proven(prove_here(plan))


@pytest.mark.parametrize("name", ["dp4", "zero4", "dp2-tp2-dp2", "zero2-tp2-sp"])
def test_microbatches(prove: Callable[..., Proof], name: str) -> None:
    mesh, presets = PLANS[name]
    assert_proven(prove(tiny_plan(mesh, *presets, microbatches=2)))


def test_one_kv_head_stays_whole_over_the_axis(prove: Callable[..., Proof]) -> None:
    graph = tiny_graph(num_key_value_heads=1)
    plan = tiny_plan("tp:4", ("megatron", "tp"), graph=graph)
    assert plan.decisions.mesh.names == ("tp",)
    assert_proven(prove(plan))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("microbatches", [1, 2])
def test_ranks_hold_unequal_numbers_of_ignored_labels(name: str, microbatches: int) -> None:
    """Otherwise a mean of local means would pass for the mean over all targets."""
    mesh, presets = PLANS[name]
    counts = ignored(tiny_plan(mesh, *presets, microbatches=microbatches))
    assert any(count for row in counts for count in row)
    if microbatches > 1:
        assert len({sum(row) for row in counts}) > 1
    if any(preset in {"data_parallel", "zero1", "zero2", "zero3"} for preset, _ in presets):
        assert all(len(set(row)) > 1 for row in counts)


def ignored(plan: Plan) -> list[list[int]]:
    """Return, per microbatch and rank, how many of the labels that a proof makes are ignored."""
    decisions = plan.decisions
    shape = decisions.global_batch, decisions.seq
    feeds = [
        Feed(name="tokens", shape=shape, dtype="int64", layout="", kind="integers", high=32),
        Feed(name="labels", shape=shape, dtype="int64", layout="", kind="next", next_of="tokens", ignored=-100),
    ]
    _, labels = synthetic_batch(0, feeds, seed=0)
    layout = next(layout for name, _, layout in train(plan).assignment.assemblies[0].inputs if name == "labels")
    return [
        [int((shard(part, layout, decisions.mesh, rank) == -100).sum()) for rank in range(decisions.mesh.device_count)]
        for part in np.split(labels.numpy(), decisions.microbatches)
    ]
