"""Rank processes that are started once and run all proofs of the session."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache

import pytest

from planner.compose import bundle
from planner.plan import Plan
from planner.proof import Proof, prove_bundle
from planner.proof.ranks import Ranks
from tests.ranks import fork_server

Prove = Callable[..., Proof]


@pytest.fixture(scope="session")
def ranks() -> Iterator[Callable[[int], Ranks]]:
    """Give the running group of a size."""
    pytest.importorskip("torch")
    fork_server()
    with ExitStack() as running:
        yield cache(lambda world: running.enter_context(Ranks(world, timeout=60.0)))


@pytest.fixture(scope="session")
def prove(ranks: Callable[[int], Ranks]) -> Prove:
    """Give a function that proves a plan at its own sizes, or other files in place of its bundle."""

    def run(plan: Plan, files: Mapping[str, str] | None = None, **options: object) -> Proof:
        group = ranks(plan.decisions.mesh.device_count)
        return prove_bundle(plan, files or bundle(plan), group, ranks(1), **options)  # type: ignore[arg-type]

    return run


@pytest.fixture(scope="session")
def prove_here() -> Iterator[Prove]:
    """Give a function that proves a plan, or other files in place of its bundle, on threads of this process."""
    pytest.importorskip("torch")
    from .threads import threads

    with threads() as run:
        yield run
