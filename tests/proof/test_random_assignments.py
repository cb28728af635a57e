"""Random legal assignments equal the unsharded model on every rank, and run the collectives that were planned.

Draws that are refused are drawn again: `draw` holds every refusal to be a `PlannerError` with a code and a message.
"""

from collections import Counter
from collections.abc import Callable

import pytest

from planner.proof import Proof

from .random_plans import draw, features
from .test_presets import assert_proven

QUICK = {4: 25, 8: 10}
"""Ranks → plans in a quick run, on threads."""
ALL = {4: 800, 8: 400}
"""Ranks → plans in a full run."""
ON_PROCESSES = {4: 8, 8: 3}
"""Ranks → plans that run on processes as well, where collectives go through gloo."""
FEATURES = {
    "axes not in mesh order", "bias under a sharded contraction", "dropout of partial sums", "dropout on shards",
    "gradient deferred", "gradient elsewhere", "kept partial", "microbatches", "no seq on some ranks",
    "optimizer elsewhere", "partial stays", "regather", "runs cut", "several axes on a factor",
    "several layouts of readers", "several raw gradients", "sharded rotary table", "sharded sequence in attention",
    "sharded vocabulary of the loss", "sharded vocabulary of the table", "sharded width of a norm", "step all_gather",
    "step all_reduce", "step all_to_all", "step exchange", "step pad", "step permute", "step reduce_scatter",
    "step slice", "step zero", "three layouts of readers", "unequal all_reduce", "unequal batch",
    "unequal chunks of chunks", "unequal exchange", "unequal h", "unequal k", "unequal n", "unequal pad",
    "unequal reduce_scatter", "unequal regather", "unequal seq", "unequal slice", "unequal storage", "unequal vocab",
}  # fmt: skip


@pytest.mark.parametrize(("world", "seed"), [(world, seed) for world in QUICK for seed in range(QUICK[world])])
def test_random_plan(prove_here: Callable[..., Proof], world: int, seed: int) -> None:
    found = draw(seed, world)
    # Few seeds of parameters and batches, so that unsharded runs are shared.
    assert_proven(prove_here(found.plan, found.files, seed=seed % 4))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "seed"), [(world, seed) for world in ALL for seed in range(QUICK[world], ALL[world])]
)
def test_more_random_plans(prove_here: Callable[..., Proof], world: int, seed: int) -> None:
    test_random_plan(prove_here, world, seed)


@pytest.mark.parametrize(
    ("world", "seed"), [(world, seed) for world in ON_PROCESSES for seed in range(ON_PROCESSES[world])]
)
def test_random_plan_on_processes(prove: Callable[..., Proof], world: int, seed: int) -> None:
    test_random_plan(prove, world, seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "seed"), [(world, seed) for world in QUICK for seed in range(QUICK[world], 3 * QUICK[world])]
)
def test_more_random_plans_on_processes(prove: Callable[..., Proof], world: int, seed: int) -> None:
    test_random_plan(prove, world, seed)


def test_the_draws_cover_what_plans_can_say() -> None:
    found: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    for seed in range(25):
        one = draw(seed, 4 if seed % 2 else 8)
        refused += one.refused
        found.update({name for name, count in features(one.plan).items() if count})
    assert {name for name in FEATURES if found[name] < 2} == set()
    assert refused, "nothing is ever refused, so the draws keep away from the edge of what is legal"
    assert refused.total() < 2 * 25, refused
