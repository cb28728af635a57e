"""Random legal assignments and presets of traced models of every architecture equal the unsharded model on ranks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from planner.compose import train
from planner.plan import Plan
from planner.proof import Proof

from .random_plans import first_legal, random_plan_of
from .test_presets import assert_proven
from .traced import NAMES, traced_graph

WORLD = 4
SHARES = 0.02, 0.1, 0.4
QUICK = {"vit": 2, "convnext": 2, "dlrm": 2, "gpt_neox": 1}
"""Architectures that are traced in a second, and how many plans of each are quick."""
ALL = 30
DRAWS = 80
TENSOR_PARALLEL = ("bert", "t5", "vit", "whisper", "gpt_neox", "gemma2", "deepseek_v3", "gpt_oss")


def drawn(name: str, seed: int) -> tuple[Plan, dict[str, str]]:
    """Return the first plan of a seed that is legal, and its bundle."""
    random = Random(f"{name}/{seed}")
    found = first_legal(lambda: random_plan_of(traced_graph(name), random, WORLD, SHARES), limit=DRAWS)
    assert not any(code.startswith("export.") for code in found.refused), found.refused
    return found.plan, found.files


def marked(name: str, quick: bool) -> pytest.param:  # type: ignore[valid-type]
    return pytest.param(name, marks=() if quick else pytest.mark.slow)


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        pytest.param(name, seed, marks=() if seed < QUICK.get(name, 0) else pytest.mark.slow)
        for name in NAMES
        for seed in range(ALL)
    ],
)
def test_random_plan(prove_here: Callable[..., Proof], name: str, seed: int) -> None:
    assert_proven(prove_here(*drawn(name, seed)))


@cache
def small_plan(name: str, mesh: str) -> Plan:
    graph = traced_graph(name)
    seq = 8 if "S" in graph.symbols else 0
    return Plan.new(
        graph, cluster="1x4-h100-sxm", mesh=mesh, global_batch=8, seq=seq, microbatches=2, precision="float64"
    )


@pytest.mark.parametrize("preset", ["data_parallel", "zero1", "zero2", "zero3"])
@pytest.mark.parametrize("name", [marked(name, name in QUICK) for name in NAMES])
def test_data_parallel(prove_here: Callable[..., Proof], name: str, preset: str) -> None:
    """Each rank works on its samples alone, whatever the model, and no weight is cut by accident."""
    plan = small_plan(name, "dp:4").preset(preset, axis="dp")
    training = train(plan)
    for assembly in training.assignment.assemblies:
        for assigned in assembly.nodes:
            used = {factor for factor, axes in assigned.strategy.factors if axes}
            weights = {
                factor
                for position, operand in enumerate(assigned.node.operands)
                if assembly.parameter(operand) is not None
                for dim in assigned.node.rule.operands[position]
                for factor in dim
            }
            assert not used & weights, (assigned.node.name, used & weights)
    inputs = training.assignment.assemblies[0].inputs
    assert all("dp" in layout.dims[0] for _, meta, layout in inputs if meta.shape)
    assert_proven(prove_here(plan))


@pytest.mark.parametrize("name", [marked(name, name == "vit") for name in TENSOR_PARALLEL])
def test_megatron(prove_here: Callable[..., Proof], name: str) -> None:
    """Most of a model's numbers are cut by tensor parallelism, whatever the family calls its modules."""
    plan = small_plan(name, "dp:2,tp:2").preset("zero3", axis="dp").preset("megatron", axis="tp")
    cut = whole = 0
    for assembly in train(plan).assignment.assemblies:
        for placed in assembly.parameters:
            size = placed.parameter.meta
            elements = assembly.count * placed.storage.local_elements(size.concrete(frozenset()), plan.decisions.mesh)
            if "tp" in placed.storage.used:
                cut += elements
            else:
                whole += elements
    assert cut > whole
    assert_proven(prove_here(plan))
    assert_proven(prove_here(plan.preset("sequence_parallel", axis="tp")))
