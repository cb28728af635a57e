"""Models that are no plain stack: their layers are found, and what is exported computes what torch does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from planner.compose import bundle
from planner.errors import PlannerError
from planner.plan import Plan
from planner.proof import Proof
from planner.verify import verify_graph
from tests.tiny import tiny_plan

from .random_plans import random_plan_of
from .test_presets import assert_proven

torch = pytest.importorskip("torch")

from .irregular import MODELS, REPEATS, VOCAB, irregular_graph, loss_of, model_of  # noqa: E402
from .threads import each_rank  # noqa: E402


@pytest.mark.parametrize("name", MODELS)
def test_layers_are_found(name: str) -> None:
    graph = irregular_graph(name)
    assert verify_graph(graph) == ()
    assert [(repeat.name, repeat.count) for repeat in graph.root.repeats] == REPEATS.get(name, [])
    assert graph.parameter_count == sum(p.numel() for p in model_of(name).parameters())


@pytest.mark.parametrize("name", MODELS)
def test_the_exported_model_is_the_torch_model(name: str) -> None:
    """It has the names of its parameters, its loss and its gradients."""
    own = model_of(name)
    generator = torch.Generator().manual_seed(3)
    tokens, labels = (torch.randint(VOCAB, (8, 8), generator=generator) for _ in range(2))

    def run(train: Any) -> dict[str, Any]:
        model = train.MODEL(sys.modules["parallel.mesh"].Mesh(train.SETTINGS.mesh)).double()
        model.load_state_dict(dict(own.named_parameters()))
        loss = model(tokens, labels)
        loss.backward()
        return {"loss": loss.detach()} | {n: p.grad for n, p in model.named_parameters() if p.grad is not None}

    (found,) = each_rank(bundle(tiny_plan("one:1", graph=irregular_graph(name))), 1, run)
    assert isinstance(found, dict), found
    own.zero_grad()
    loss = loss_of(own, tokens, labels)[0]
    loss.backward()
    expected = {"loss": loss.detach()} | {n: p.grad for n, p in own.named_parameters() if p.grad is not None}
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        torch.testing.assert_close(
            found[key], value, rtol=1e-10, atol=1e-12, msg=lambda text, key=key: f"{key}: {text}"
        )


@pytest.mark.parametrize("name", MODELS)
def test_sharded(prove_here: Callable[..., Proof], name: str) -> None:
    assert_proven(prove_here(_drawn(name, 0)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 40))
@pytest.mark.parametrize("name", MODELS)
def test_more_sharded(prove_here: Callable[..., Proof], name: str, seed: int) -> None:
    assert_proven(prove_here(_drawn(name, seed)))


def _drawn(name: str, seed: int) -> Plan:
    """Return the first legal plan of a model that is drawn from a seed."""
    random = Random(f"{name} {seed}")
    while True:
        try:
            plan = random_plan_of(irregular_graph(name), random, 4)
            bundle(plan)
        except PlannerError:
            continue
        return plan
