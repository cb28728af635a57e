"""Parameters that are not trained: no gradient, no optimizer state, and the others' gradients are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.compose import evaluate, train
from planner.core.graph import ModelGraph
from planner.cost.memory import GRADIENTS, OPTIMIZER, PARAMETERS
from planner.plan import Plan
from planner.proof import Proof
from planner.verify.training import verify_training
from tests.tiny import tiny_graph, tiny_plan

from .test_presets import assert_proven

pytest.importorskip("torch")
FROZEN = ("model.norm.weight", "model.layers.*.mlp.up_proj.weight")


def frozen(graph: ModelGraph) -> ModelGraph:
    """Return a model of which some parameters are not trained."""

    def block(one):  # type: ignore[no-untyped-def]
        parameters = tuple(replace(p, initial="frozen") if p.name in FROZEN else p for p in one.parameters)
        body = tuple(replace(i, block=block(i.block)) if hasattr(i, "block") else i for i in one.body)
        return replace(one, parameters=parameters, body=body)

    return replace(graph, root=block(graph.root))


def plan_of(preset: str) -> Plan:
    return tiny_plan("dp:2,tp:2", (preset, "dp"), ("megatron", "tp"), graph=frozen(tiny_graph()))


@pytest.mark.parametrize("preset", ["data_parallel", "zero1", "zero3"])
@pytest.mark.parametrize("kind", ["gradients", "training"])
def test_the_others_are_trained_alike(prove_here: Callable[..., Proof], preset: str, kind: str) -> None:
    proof = prove_here(plan_of(preset), kind=kind)
    assert_proven(proof)
    compared = {row.name for row in proof.rows}
    if kind == "gradients":
        assert "model.norm.weight" not in compared
    assert "lm_head.weight" in compared


def test_they_have_neither_gradient_nor_state() -> None:
    training = train(plan_of("zero1"))
    assert verify_training(training) == ()
    updated = {update.parameter for scope in training.scopes for update in scope.updates}
    assert updated.isdisjoint(FROZEN)
    gradients = {f.value for scope in training.scopes for f in scope.fanouts if f.backward}
    assert gradients.isdisjoint(FROZEN)


def test_they_take_memory_for_their_values_alone() -> None:
    left, values = (
        {
            item.name: item.value
            for item in evaluate(tiny_plan("dp:2", ("data_parallel", "dp"), graph=g)).memory.children
        }
        for g in (frozen(tiny_graph()), tiny_graph())
    )
    # A norm of 32, and in each of two layers up_proj, 48·32.
    elements = 32 + 2 * 48 * 32
    share = elements / tiny_graph().parameter_count
    assert left[PARAMETERS] == values[PARAMETERS]
    for item in (GRADIENTS, OPTIMIZER):
        assert left[item] == pytest.approx(values[item] * (1 - share))
