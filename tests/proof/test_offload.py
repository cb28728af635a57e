"""Parameters and optimizer state on the host: gradients, updates and collectives are those of the device."""

from collections.abc import Callable

import pytest

from planner.plan import Plan
from planner.proof import Proof
from tests.tiny import tiny_graph, tiny_plan, with_dropout

from .test_presets import PLANS, assert_proven

GRAPH = with_dropout(tiny_graph("llama-biased", tied=True))
KINDS: dict[str, Callable[[Plan], Plan]] = {
    "optimizer": lambda plan: plan.preset("offload_optimizer"),
    "parameters": lambda plan: plan.store("*", place="host"),
    "both": lambda plan: plan.preset("offload_parameters"),
    "both, recomputed": lambda plan: plan.preset("offload_parameters").preset("recompute_full"),
    "some": lambda plan: (
        plan.store("mlp.*", place="host").store("self_attn.*", of="optimizer", place="host").recompute("mlp")
    ),
    "deferred": lambda plan: plan.preset("offload_parameters").store("*", of="gradient", deferred=True),
}
QUICK = {"zero2-tp2-sp": KINDS.keys(), "zero1-dp4": {"optimizer", "both"}}
CASES = [
    pytest.param(kind, mesh, id=f"{kind}-{mesh}", marks=() if kind in QUICK.get(mesh, ()) else pytest.mark.slow)
    for kind in KINDS
    for mesh in PLANS
]


@pytest.mark.parametrize(("kind", "mesh"), CASES)
def test_places(prove_here: Callable[..., Proof], kind: str, mesh: str) -> None:
    """One step's gradients, and losses and parameters after four: a copy that was fetched too early would be old."""
    axes, presets = PLANS[mesh]
    plan = KINDS[kind](tiny_plan(axes, *presets, graph=GRAPH, microbatches=2))
    assert_proven(prove_here(plan))
    assert_proven(prove_here(plan, kind="training", steps=4))
