"""Every fan-out's backward is the transpose of its forward: <y, A x> = <Aᵀ y, x>, over all ranks.

A pairing adds up what the ranks hold, and counts what several ranks hold alike once: those along axes that neither side
uses. Where one side is partial or sharded over an axis and the other is not, each rank has its share of the sum.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from planner.collectives import COLLECTIVES, World
from planner.compose import redistribute, train
from planner.core.assignment import Fanout
from planner.core.collective import Redistribution
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from tests.proof.random_plans import draw
from tests.properties.strategies import pieces
from tests.tiny import tiny_graph, tiny_plan


def run(moved: Redistribution, world: World, mesh: DeviceMesh) -> World:
    for step in moved.steps:
        world = COLLECTIVES[step.kind].run(step, world, mesh)
    return world


def pairing(left: World, right: World, layouts: tuple[Layout, Layout], mesh: DeviceMesh) -> float:
    used = layouts[0].used | layouts[1].used
    alike = prod(size for name, size in mesh.axes if name not in used)
    return float(sum(np.vdot(a, b) for a, b in zip(left, right, strict=True)) / alike)


def assert_adjoint(fanout: Fanout, mesh: DeviceMesh, rng: np.random.Generator) -> None:
    assert fanout.gradient is not None

    def random(layout: Layout) -> World:
        return pieces(rng.standard_normal(fanout.shape), layout, mesh, rng)

    x = random(fanout.source)
    given: dict[int, World] = {}
    left = 0.0
    for delivery in fanout.forward:
        result = run(delivery.redistribution, x, mesh)
        for position in delivery.readers:
            reader = fanout.readers[position]
            if reader.raw is not None:
                given[position] = random(reader.raw)
                left += pairing(given[position], result, (reader.raw, reader.layout), mesh)
    total: list[Any] = [0.0] * mesh.device_count
    for delivery in fanout.backward:
        added = _sum([given[position] for position in delivery.readers])
        total = _sum([total, run(delivery.redistribution, added, mesh)])
    # A parameter's gradient may lie elsewhere than the parameter: brought there it is what the transpose gives.
    home = fanout.source.adjoint
    total = run(redistribute(fanout.gradient, home, mesh, shape=fanout.shape, dtype="float64"), total, mesh)
    right = pairing(total, x, (home, fanout.source), mesh)
    assert left == pytest.approx(right, rel=1e-9, abs=1e-9), f"{fanout.value}: {fanout.forward} {fanout.backward}"


def _sum(worlds: Sequence[Sequence[Any]]) -> list[Any]:
    return [sum(parts[1:], parts[0]) for parts in zip(*worlds, strict=True)]


@pytest.mark.parametrize(("world", "seed"), [(4, seed) for seed in range(8)] + [(8, seed) for seed in range(8)])
def test_random_plans(world: int, seed: int) -> None:
    plan = draw(seed, world).plan
    rng = np.random.default_rng(seed)
    training = train(plan)
    fanouts = [f for scope in training.scopes for f in scope.fanouts if f.backward]
    assert len(fanouts) > 20
    for fanout in fanouts:
        assert_adjoint(fanout, plan.decisions.mesh, rng)


def test_presets() -> None:
    plan = tiny_plan(
        "dp:2,tp:4", ("zero3", "dp"), ("megatron", "tp"), ("sequence_parallel", "tp"),
        graph=tiny_graph("llama-biased", num_key_value_heads=2),
    )  # fmt: skip
    for scope in train(plan).scopes:
        for fanout in scope.fanouts:
            if fanout.backward:
                assert_adjoint(fanout, plan.decisions.mesh, np.random.default_rng(0))


def test_a_wrong_backward_is_seen() -> None:
    """Leaving out one backward step breaks the equation."""
    plan = tiny_plan("tp:4", ("megatron", "tp"))
    scope = train(plan).scopes[1]
    fanout = next(f for f in scope.fanouts if f.value.endswith("input_layernorm"))
    (delivery,) = fanout.backward
    assert [step.kind for step in delivery.redistribution.steps] == ["all_reduce"]
    short = replace(delivery, redistribution=replace(delivery.redistribution, steps=()))
    with pytest.raises(AssertionError):
        assert_adjoint(replace(fanout, backward=(short,)), plan.decisions.mesh, np.random.default_rng(0))
