"""Plans whose sizes no axis divides equal the unsharded model: batch, sequence, widths, vocabulary, storage, training.

The random plans draw such sizes too; these are the cases that people meet, each on its own.
"""

from collections.abc import Callable

import pytest

from planner.compose import evaluate, train
from planner.core.graph import ModelGraph
from planner.plan import Plan
from planner.proof import Proof, unsharded
from planner.proof.shrink import shrink, uncovered
from tests.tiny import tiny_graph, tiny_plan, with_dropout

from .norms import gradient_norms
from .test_presets import assert_proven

ODD = {"vocab_size": 33, "intermediate_size": 50, "hidden_size": 30}


def plan(mesh: str, *presets: tuple[str, str], batch: int = 8, seq: int = 8, microbatches: int = 1,
         graph: ModelGraph | None = None) -> Plan:  # fmt: skip
    made = tiny_plan(mesh, graph=graph or tiny_graph(num_hidden_layers=1, **ODD))
    made = made.batch(global_batch=batch, seq=seq, microbatches=microbatches)
    for name, axis in presets:
        made = made.preset(name, axis=axis)
    return made


PLANS: dict[str, Plan] = {
    "data over three": plan("dp:3", ("data_parallel", "dp")),
    "two sequences over four": plan("dp:4", ("data_parallel", "dp"), batch=2),
    "unequal microbatches": plan("dp:4", ("zero3", "dp"), batch=6, microbatches=2),
    "storage over four": plan("dp:4", ("zero3", "dp")),
    "storage of three words": plan("dp:8", ("zero3", "dp"), graph=tiny_graph(vocab_size=3, hidden_size=5)),
    "widths over four": plan("tp:4", ("megatron", "tp")),
    "sequence over four": plan("tp:4", ("megatron", "tp"), ("sequence_parallel", "tp"), seq=6),
    "three tokens over four": plan("tp:4", ("megatron", "tp"), ("sequence_parallel", "tp"), seq=3),
    "everything": plan("dp:2,tp:4", ("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"), batch=3, seq=7,
                       graph=with_dropout(tiny_graph(num_hidden_layers=2, tied=True, **ODD))),
    "chunks of chunks": plan("a:2,b:4", graph=with_dropout(tiny_graph(num_hidden_layers=1, **ODD)), batch=5, seq=10)
    .shard("embed_tokens", {"seq": ("a", "b")})
    .shard("lm_head", {"n": ("b", "a")})
    .store("*", axes=("a", "b"), regather=True),
    # Ranks 3 and 7 read no row of the head; when it is fetched again in backward, they take part all the same.
    "copies that some ranks have nothing of": plan("a:2,b:4", graph=tiny_graph(num_hidden_layers=1, vocab_size=3))
    .shard("lm_head", {"n": "b"})
    .store("lm_head", layout="[a·b, -]", regather=True),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_gradients(prove_here: Callable[..., Proof], name: str) -> None:
    assert_proven(prove_here(PLANS[name]))
    assert [d for d in evaluate(PLANS[name]).diagnostics if d.code == "plan.uneven"]


@pytest.mark.parametrize("name", ["everything", "storage of three words"])
def test_training(prove_here: Callable[..., Proof], name: str) -> None:
    """Steps of the optimizer on shards of unequal length, some of them empty."""
    assert_proven(prove_here(PLANS[name], kind="training", steps=5))


@pytest.mark.parametrize("name", ["everything", "storage of three words", "chunks of chunks"])
def test_the_norm_of_all_gradients(name: str) -> None:
    """Parts of unequal length count as they are, replicas once, and nothing counts nothing."""
    (expected,), found = gradient_norms(unsharded(PLANS[name])), gradient_norms(PLANS[name])
    assert found == (pytest.approx(expected, rel=1e-12),) * len(found)


@pytest.mark.parametrize("name", ["everything", "two sequences over four", "chunks of chunks"])
def test_on_processes(prove: Callable[..., Proof], name: str) -> None:
    assert_proven(prove(PLANS[name]))


def test_a_vocabulary_of_50257_over_eight(prove_here: Callable[..., Proof]) -> None:
    graph = tiny_graph(num_hidden_layers=1, vocab_size=50257, hidden_size=8)
    made = plan("tp:8", ("zero3", "tp"), graph=graph, batch=1).shard("embed_tokens", {"batch": (), "vocab": "tp"})
    assert_proven(prove_here(made.shard("lm_head", {"n": "tp"})))


def cut(made: Plan) -> set[str]:
    """Return what operators cut unevenly, by factor."""
    sizes = {"B": made.decisions.global_batch // made.decisions.microbatches, "S": made.decisions.seq}
    mesh = made.decisions.mesh
    return {
        factor
        for assembly in train(made).assignment.assemblies
        for assigned in assembly.nodes
        for factor, axes in assigned.strategy.factors
        if sizes.get(str(size := assigned.node.rule.size(factor)), size) % mesh.size_of(axes)
    }


@pytest.mark.parametrize(
    "name",
    [
        "data over three", "two sequences over four", "unequal microbatches", "storage over four", "widths over four",
        "sequence over four", "three tokens over four", "storage of three words",
    ],
)  # fmt: skip
def test_a_small_model_keeps_what_is_cut_unevenly(name: str) -> None:
    large = PLANS[name]
    small = shrink(large, 4)
    assert cut(small) == cut(large)
    assert not [note for note in uncovered(large, small) if "unequal" in note]


def test_what_a_small_model_can_not_keep_is_said() -> None:
    """Storage cuts the larger of two dims that do not divide; in the small model that is the other one."""
    graph = tiny_graph(num_hidden_layers=1, hidden_size=46, intermediate_size=49)
    large = plan("dp:3", ("zero3", "dp"), batch=6, graph=graph)
    (note,) = (note for note in uncovered(large, shrink(large, 3)) if "unequal" in note)
    assert " sizes are cut into unequal parts in the plan or here, and not in both: " in note
    assert "dim 0 of model.layers.*.mlp.gate_proj.weight" in note


def test_heads_over_three_ranks_are_proven_on_heads_over_three() -> None:
    large = tiny_plan("tp:3", ("megatron", "tp"), graph=tiny_graph(num_attention_heads=6, num_key_value_heads=3))
    small = shrink(large, 3)
    # The vocabulary of 32: of the table, the head, and the two halves of the loss.
    assert cut(small) == cut(large) == {"vocab", "n", "k"}
