"""Twenty optimizer steps end with the losses and the parameters of the unsharded model."""

from collections.abc import Callable

import pytest

from planner.proof import Proof
from tests.tiny import tiny_graph, tiny_plan

from .test_presets import PLANS, assert_proven


@pytest.mark.parametrize(
    ("name", "microbatches"),
    [
        ("zero2-tp2-sp", 2),
        *(
            pytest.param(name, microbatches, marks=pytest.mark.slow)
            for name, microbatches in (("zero2-tp2-sp", 1), ("dp4", 2), ("zero4", 1), ("zero2-tp2-dp2", 2))
        ),
    ],
)
def test_training(prove: Callable[..., Proof], name: str, microbatches: int) -> None:
    mesh, presets = PLANS[name]
    plan = tiny_plan(
        mesh, *presets, graph=tiny_graph("llama-biased", tied=True, num_hidden_layers=1), microbatches=microbatches
    )
    assert_proven(prove(plan, kind="training", steps=20))
