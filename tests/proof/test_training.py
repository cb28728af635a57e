"""Twenty optimizer steps end with the losses and the parameters of the unsharded model."""

from collections.abc import Callable

import pytest

from planner.plan import Plan
from planner.proof import Proof
from tests.tiny import tiny_graph, tiny_plan, with_dropout

from .test_presets import PLANS, assert_proven


def twenty_steps(prove: Callable[..., Proof], name: str, microbatches: int) -> Proof:
    mesh, presets = PLANS[name]
    return prove(tiny_plan(mesh, *presets, graph=GRAPH, microbatches=microbatches), kind="training", steps=20)


@pytest.mark.parametrize(("name", "microbatches"), [("zero2-tp2-sp", 2), ("dp4", 1)])
def test_training(prove_here: Callable[..., Proof], name: str, microbatches: int) -> None:
    assert_proven(twenty_steps(prove_here, name, microbatches))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "microbatches"),
    [("zero2-tp2-sp", 1), ("zero2-tp2-sp", 2), ("dp4", 2), ("zero4", 1), ("zero2-tp2-dp2", 2), ("zero1-dp4", 2)],
)
def test_training_on_processes(prove: Callable[..., Proof], name: str, microbatches: int) -> None:
    assert_proven(twenty_steps(prove, name, microbatches))


GRAPH = with_dropout(tiny_graph("llama-biased", tied=True, num_hidden_layers=1))
STATES: dict[str, Callable[[Plan], Plan]] = {
    "zero1": lambda plan: plan.preset("zero1", axis="dp"),
    "zero2": lambda plan: plan.preset("zero2", axis="dp"),
    "zero2, deferred": lambda plan: plan.preset("zero2", axis="dp").store("*", of="gradient", deferred=True),
    "zero3, deferred": lambda plan: plan.preset("zero3", axis="dp").store("*", of="gradient", deferred=True),
    "optimizer elsewhere than the gradient": lambda plan: (
        plan.store("*", of="gradient", axes=("dp",))
        .store("*_proj.weight", of="optimizer", layout="[-, dp]")
        .store("*norm.weight", of="optimizer", layout="[tp]")
    ),
    "gradient cut, optimizer whole": lambda plan: (
        plan.store("*_proj.weight", of="gradient", layout="[-, dp]")
        .store("*_proj.weight", of="optimizer", layout="[-, -]")
        .store("*norm.weight", of="gradient", layout="[dp]")
        .store("*norm.weight", of="optimizer", layout="[-]")
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_states_that_lie_elsewhere(prove_here: Callable[..., Proof], name: str) -> None:
    """Gradients, and the losses and parameters after several updates, are those of the unsharded model."""
    plan = tiny_plan("dp:2,tp:2", ("data_parallel", "dp"), ("megatron", "tp"), graph=GRAPH, microbatches=2)
    plan = STATES[name](plan)
    assert_proven(prove_here(plan))
    assert_proven(prove_here(plan, kind="training", steps=4))
