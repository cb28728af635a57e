"""Silent bugs that users of other tools reported, as plans on small models: here the numbers come out right.

Each test also puts the bug into the exported code and sees the proof fail, so that the plan is one in which it would
show.

| report | test |
|---|---|
| Megatron-LM 7452: weights that ranks use on a part | `test_norms_of_heads_get_the_gradients_of_all_ranks` |
| Megatron-LM 7452: unequal numbers of labels | `test_ranks_with_unequal_numbers_of_labels_count_by_them` |
| Megatron-LM 7452: norm of all gradients | `test_numbers_of_heads_count_once_in_the_norm_of_all_gradients` |
| pytorch 190746 | `test_probabilities_of_sharded_classes_are_read_by_another_loss` |
| pytorch 172932 | `test_a_partial_value_gets_a_whole_gradient` |
| pytorch 108840 | `test_a_whole_input_meets_weights_cut_along_it` |
| torchtitan 1373, transformers 36657 | `test_the_rotated_key_of_all_heads_gets_the_gradients_of_all_heads` |
| hyper-parallel 685 | `test_an_adapter_beside_a_row_parallel_linear` |
| hyper-parallel 494 and 379: division by the number of ranks | `test_a_whole_branch_is_added_to_a_partial_one_once` |
| hyper-parallel 494 and 379: sums in bf16 | `test_partial_results_of_many_ranks_do_not_drift` |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache

import pytest

pytest.importorskip("torch")

from torch import nn

from planner.compose import bundle, evaluate, load_model, train
from planner.core.assignment import Fanout
from planner.core.graph import ModelGraph
from planner.plan import Plan
from planner.proof import Proof, unsharded
from tests.tiny import tiny_graph, tiny_plan

from .drift import drift
from .known_bugs import WIDTH, Adapted, Added, Gated, Preferences, Scaled, Stacked, example
from .norms import gradient_norms
from .sabotage import sabotages
from .small_models import latent, model
from .test_presets import assert_proven

ProveHere = Callable[..., Proof]
TP = ("tp",)


@cache
def graph_of(kind: type[nn.Module]) -> ModelGraph:
    module = kind()
    return load_model(module, example(module))


def plan_of(kind: type[nn.Module], *, mesh: str = "dp:2,tp:2") -> Plan:
    """Return a plan in which the samples lie over `dp`."""
    made = Plan.new(
        graph_of(kind), cluster="1x4-h100-sxm", mesh=mesh, global_batch=8, microbatches=1, precision="float64"
    )
    return made.preset("data_parallel", axis="dp")


def fanout(plan: Plan, value: str) -> Fanout:
    """Return the edge of a value."""
    return next(f for scope in train(plan).scopes for f in scope.fanouts if f.value.endswith(value))


def kinds(made: Fanout, *, backward: bool) -> list[tuple[str, tuple[str, ...]]]:
    """Return kind and axes of what an edge does."""
    deliveries = made.backward if backward else made.forward
    return [(step.kind, step.axes) for each in deliveries for step in each.redistribution.steps]


def assert_shows(prove: ProveHere, plan: Plan, right: str, wrong: str, *, times: int = 1) -> set[str]:
    """Put a mistake into the model's text, see the proof fail on numbers, and return the wrong rows."""
    files = bundle(plan)
    assert files["model.py"].count(right) >= times, files["model.py"]
    proof = prove(plan, files | {"model.py": files["model.py"].replace(right, wrong)})
    found = {row.name for row in proof.rows if not row.ok}
    assert found, (proof.failures, right)
    return found


def without(prove: ProveHere, plan: Plan, value: str, direction: str) -> set[str]:
    """Leave out the first collective of an edge, and return the wrong rows."""
    files = bundle(plan)
    change = next(
        c
        for c in sabotages(files["model.py"], plan.decisions.mesh.names)
        if c.change == "drop" and c.place.endswith(direction) and c.value.endswith(value)
    )
    proof = prove(plan, files | {"model.py": change.text})
    found = {row.name for row in proof.rows if not row.ok}
    assert found, (proof.failures, str(change))
    return found


def test_probabilities_of_sharded_classes_are_read_by_another_loss(prove_here: ProveHere) -> None:
    """pytorch 190746: with classes over ranks, the log-softmax gave its gradient on as it was, since the cross-entropy
    that usually follows had already done its part. A preference loss has no cross-entropy.
    """
    plan = plan_of(Preferences).shard("head", {"n": TP}).shard("log_softmax", {"k": TP})
    parts = {a.node.op for scope in train(plan).scopes for a in scope.assembly.nodes}
    assert {"row_max", "sum_exp", "log_softmax_shift"} <= parts
    # What comes back to the sum of exponentials comes from all ranks of the axis.
    assert ("all_reduce", TP) in kinds(fanout(plan, "log_softmax~sum_exp"), backward=True)
    assert_proven(prove_here(plan))
    assert "head.weight" in without(prove_here, plan, "log_softmax~sum_exp", "backward")


def test_a_partial_value_gets_a_whole_gradient(prove_here: ProveHere) -> None:
    """pytorch 172932: a partial result that was taken out as a local tensor and put back got a gradient that counted
    every rank, although going out and in changes nothing. Here a gate reads the partial result as it is.
    """
    plan = plan_of(Gated).shard("up", {"n": TP}).shard("down", {"k": TP}).keep("mul", "tp", (0,))
    product = fanout(plan, "down")
    assert product.source.partial == TP
    assert product.gradient is not None
    assert not product.gradient.partial
    assert not kinds(product, backward=False)
    assert not [step for step in kinds(product, backward=True) if step[1] == TP]
    # The gate is whole and meets parts of the product, so its gradient is a sum over the ranks.
    assert any("tp" in axes for _, axes in kinds(fanout(plan, "gate"), backward=True))
    assert_proven(prove_here(plan))
    assert "gate" in without(prove_here, plan, "gate", "backward")


def test_a_whole_input_meets_weights_cut_along_it(prove_here: ProveHere) -> None:
    """pytorch 108840: a row-parallel linear whose input every rank had whole gave a wrong result. The input is to be
    cut, the results added, and the bias added once and not by every rank.
    """
    plan = plan_of(Gated).shard("up", {"n": ()}).shard("tanh", {"h": ()}).shard("down", {"k": TP})
    assert kinds(fanout(plan, "tanh"), backward=False) == [("slice", TP)]
    assert kinds(fanout(plan, "tanh"), backward=True) == [("all_gather", TP)]
    assert kinds(fanout(plan, "down.bias"), backward=False) == [("zero", TP)]
    assert_proven(prove_here(plan))
    assert "loss" in without(prove_here, plan, "down.bias", "forward")


def test_the_rotated_key_of_all_heads_gets_the_gradients_of_all_heads(prove_here: ProveHere) -> None:
    """torchtitan 1373, transformers 36657: in latent attention one rotated part of the key serves all heads. With heads
    over ranks, its gradient from the other ranks' heads was lost.
    """
    plan = tiny_plan("tp:2", graph=model("latent", latent))
    for name in ("q", "q_turned", "k", "v"):
        plan = plan.shard(f"{name}", {"n": TP})
    plan = plan.shard("attention", {"g": TP}).shard("o", {"k": TP}).shard("share", {"head": TP})
    assert kinds(fanout(plan, "turn_k"), backward=True) == [("all_reduce", TP)]
    assert_proven(prove_here(plan))
    assert "k_turned.weight" in without(prove_here, plan, "turn_k", "backward")


def test_an_adapter_beside_a_row_parallel_linear(prove_here: ProveHere) -> None:
    """hyper-parallel 685: the narrow product of an adapter is a partial result, since its input is cut. The product
    after it forgot that, and the wide matrix got 1/N of its gradient.
    """
    plan = (
        plan_of(Adapted).shard("up", {"n": TP}).shard("base", {"k": TP}).shard("narrow", {"k": TP})
        .keep("wide", "tp", (0,)).keep("add", "tp", (0, 1))
    )  # fmt: skip
    assert fanout(plan, "narrow").source.partial == TP
    assert fanout(plan, "wide").source.partial == TP
    assert any("tp" in axes for _, axes in kinds(fanout(plan, "wide.weight"), backward=True))
    assert_proven(prove_here(plan))
    assert "wide.weight" in without(prove_here, plan, "wide.weight", "backward")


def test_a_whole_branch_is_added_to_a_partial_one_once(prove_here: ProveHere) -> None:
    """hyper-parallel 379 and 494: to add a whole tensor to a partial one, it was divided by the number of ranks, and so
    was its gradient. Here one rank adds it and the others add zeros, and its gradient is that of the sum.
    """
    plan = plan_of(Added).shard("up", {"n": TP}).shard("down", {"k": TP}).keep("add", "tp", (0, 1))
    assert kinds(fanout(plan, "branch"), backward=False) == [("zero", TP)]
    assert not [step for step in kinds(fanout(plan, "branch"), backward=True) if step[1] == TP]
    assert_proven(prove_here(plan))
    divided = assert_shows(
        prove_here, plan, 'forward=[Zero(axes=("tp",))]',
        'forward=[lambda x, mesh: x / 2], backward=[lambda x, mesh: x / 2]',
    )  # fmt: skip
    assert {"branch.weight", "branch.bias"} <= divided
    assert "loss" not in divided


def test_norms_of_heads_get_the_gradients_of_all_ranks(prove_here: ProveHere) -> None:
    """Megatron-LM 7452, and long before: a weight that every rank has whole but uses on its heads or tokens alone,
    such as the norms of queries and keys or those between layers, is to be summed over the tensor axis.
    """
    graph = tiny_graph("qwen3", num_hidden_layers=1)
    plan = tiny_plan("dp:2,tp:2", ("data_parallel", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"), graph=graph)
    for name in ("q_norm.weight", "input_layernorm.weight"):
        assert any("tp" in axes for _, axes in kinds(fanout(plan, name), backward=True))
    assert_proven(prove_here(plan))
    assert "model.layers.0.self_attn.q_norm.weight" in without(prove_here, plan, "q_norm.weight", "backward")


def test_ranks_with_unequal_numbers_of_labels_count_by_them(prove_here: ProveHere) -> None:
    """Megatron-LM 7452: losses were averaged over ranks or microbatches alike, although some hold fewer labels that
    count.
    """
    plan = tiny_plan("dp:4", ("data_parallel", "dp"), graph=tiny_graph(num_hidden_layers=1), microbatches=2)
    assert kinds(fanout(plan, "loss~count_targets"), backward=False) == [("all_reduce", ("dp",))]
    assert_proven(prove_here(plan))
    assert "loss" in assert_shows(
        prove_here, plan, "count_targets = reshard(", "count_targets = 4 * (lambda x, *_, **__: x)("
    )


def test_numbers_of_heads_count_once_in_the_norm_of_all_gradients() -> None:
    """Megatron-LM 7452: a parameter with a number for each head lay over the tensor axis and was not marked so; the
    norm by which gradients are clipped left the parts of the other ranks out.
    """
    plan = plan_of(Scaled).shard("up", {"n": TP}).shard("mul", {"h": TP}).store("sinks", layout="[tp]")
    (expected,), found = gradient_norms(unsharded(plan)), gradient_norms(plan)
    assert found == (pytest.approx(expected, rel=1e-12),) * 4


def test_partial_results_of_many_ranks_do_not_drift(prove_here: ProveHere) -> None:
    """hyper-parallel 494: partial results were added in bf16, and each addition of two ranks' numbers rounded. With
    sums in fp32, eight ranks lose little more than one process, which rounds each product once.
    """
    plan = Plan.new(graph_of(Stacked), cluster="1x8-h100-sxm", mesh="tp:8", global_batch=32).precise("bf16-fp32grad")
    plan = plan.shard("layers.*.up", {"n": TP}).shard("layers.*.down", {"k": TP})
    wide = plan.precise("bf16-fp32sum")
    alone, ((together, passed), (as_they_are, _)) = drift(wide, plan)
    assert together < 1.25 * alone
    assert as_they_are > 1.4 * alone
    # What ran passed the bytes that are planned and priced.
    rows = [row for row in evaluate(wide).collectives for _ in range(row.count)]
    assert passed == Counter((row.kind, row.axes, row.payload_bytes, row.payload_bytes) for row in rows)
    assert {row.payload_bytes for row in rows} == {32 * WIDTH * 4}
    assert_proven(prove_here(wide))
