"""Soundness on three axes: kept partial sums, reductions, merged dims and parts at once, by random strategies."""

from itertools import product
from random import Random

import pytest

pytest.importorskip("torch")

from planner.core.graph import Node
from planner.core.mesh import DeviceMesh
from planner.core.strategy import ShardStrategy

from .cases import CASES, codes
from .test_uneven import hold

MESH = DeviceMesh.of({"a": 2, "b": 2, "c": 3})
MORE = 40
"""Draws of a case in a full run; what is illegal is left out."""


def draw(one: Node, random: Random) -> ShardStrategy:
    """Give every axis, in any order, to a factor, to carriers that keep it partial, or to nothing."""
    carriers = list(product(*one.rule.terms)) if one.rule.terms else []
    free = [f for f in one.rule.factors if one.rule.role(f) != "blocked"]
    factors: dict[str, tuple[str, ...]] = {}
    kept: dict[str, tuple[int, ...]] = {}
    for axis in random.sample(MESH.names, 3):
        place = random.choice([None, *free, *free, *carriers])
        if isinstance(place, str):
            factors[place] = (*factors.get(place, ()), axis)
        elif place is not None:
            kept[axis] = place
    return ShardStrategy.of(factors, kept)


def legal(name: str, draws: int) -> list[ShardStrategy]:
    """Return the legal ones of some draws, without those that shard nothing."""
    random = Random(name)
    found = {draw(CASES[name], random) for _ in range(draws)} - {ShardStrategy()}
    return sorted((s for s in found if not codes(CASES[name], s, MESH)), key=str)


@pytest.mark.parametrize("name", CASES)
def test_one_draw(name: str) -> None:
    hold(name, legal(name, 3)[:1], MESH)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_more_draws(name: str) -> None:
    hold(name, legal(name, MORE), MESH)


def test_draws_are_of_all_kinds() -> None:
    """Among what the quick run holds are strategies of three axes, kept sums and chunks of chunks."""
    quick = [s for name in CASES for s in legal(name, 3)[:1]]
    assert sum(len({a for _, axes in s.factors for a in axes}) + len(s.kept) == 3 for s in quick) > 20
    assert any(s.kept for s in quick)
    assert any(len(axes) > 1 for s in quick for _, axes in s.factors)
