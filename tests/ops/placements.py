"""Placements on one mesh axis: what rules allow, and what is right by trying.

A *row* says how each operand and each result lies over one axis: `R`, `S<dim>`, or `P` (sum). A rule's rows are the
layouts of its collective-free strategies; a row is *right* if what two ranks compute of generic data is what it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from planner.core.graph import Node
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.core.strategy import ShardStrategy, layouts
from tests.properties.strategies import pieces

from .cases import codes, evaluate_on, expression, operands_of, sizes, strategies
from .ranks import parts_of, torch

LINE = DeviceMesh.of({"a": 2})
Row = tuple[tuple[str, ...], tuple[str, ...]]
"""Placements of the operands, then of the results."""


def placement(layout: Layout) -> str:
    """Return the placement of a layout on `LINE`; other reductions than sums are written with their name."""
    if layout.partial:
        return "P" if layout.reduce == "sum" else f"P{layout.reduce}"
    return next((f"S{dim}" for dim, axes in enumerate(layout.dims) if axes), "R")


def layout_of(text: str, rank: int) -> Layout:
    """Return the layout on `LINE` of a tensor of `rank` dims."""
    if text == "P":
        return Layout.replicated(rank).with_partial(("a",))
    return Layout.replicated(rank).with_dim(int(text[1:]), ("a",)) if text[0] == "S" else Layout.replicated(rank)


def rows(one: Node) -> set[Row]:
    """Return the rows that a node's rule allows without a collective inside."""
    found = set()
    for strategy in strategies(one, LINE):
        if not codes(one, strategy, LINE) and parts_of(one, strategy, LINE) == ((one, strategy),):
            operands, results = layouts(one.rule, strategy)
            found.add((tuple(map(placement, operands)), tuple(map(placement, results))))
    return found


def right_rows(one: Node) -> set[Row]:
    """Return every right row over {R, S, P}, S only for dims of even size.

    P is tried for operands of floating type, and for results other than truth values.
    """
    operands = operands_of(one)
    expected = evaluate_on(expression(one), operands, LINE, 0)
    choices = [_placements(x.shape, partial=x.is_floating_point()) for x in operands]
    answers = [_placements(x.shape, partial=x.dtype != torch.bool) for x in expected]
    return {
        (given, result)
        for given in product(*choices)
        for result in _right_results(one, given, operands, expected, answers)
    }


def is_right(one: Node, row: Row) -> bool:
    """Say whether a row is right."""
    operands = operands_of(one)
    expected = evaluate_on(expression(one), operands, LINE, 0)
    return row[1] in set(_right_results(one, row[0], operands, expected, [[text] for text in row[1]]))


def _placements(shape: Sequence[int], *, partial: bool) -> list[str]:
    dims = [f"S{dim}" for dim, size in enumerate(shape) if size % 2 == 0]
    return ["R", *dims, *(["P"] if partial else [])]


def _right_results(
    one: Node, given: tuple[str, ...], operands: list[Any], expected: Sequence[Any], answers: list[list[str]]
) -> Iterator[tuple[str, ...]]:
    """Yield the right result placements to the given operand placements."""
    rng = np.random.default_rng(2)
    worlds = [pieces(x.numpy(), layout_of(p, x.dim()), LINE, rng) for x, p in zip(operands, given, strict=True)]
    made: dict[str, list[tuple[Any, ...]] | None] = {}
    for result in product(*answers):
        text = expression(one, _shape_arguments(one, given, result), LINE)
        if text not in made:
            made[text] = _both(text, worlds)
        ranks = made[text]
        if ranks is not None and all(
            _holds(placed, [rank[i] for rank in ranks], full)
            for i, (placed, full) in enumerate(zip(result, expected, strict=True))
        ):
            yield result


def _shape_arguments(one: Node, given: tuple[str, ...], result: tuple[str, ...]) -> ShardStrategy:
    """Return which factors a line should take to be sharded: all those that lie on a sharded dim.

    Only the sizes and offsets written into the line come from this; it need not be a legal strategy.
    """
    extent = sizes(one)
    sharded = set()
    for tensors, texts in ((one.rule.operands, given), (one.rule.results, result)):
        for tensor, text in zip(tensors, texts, strict=True):
            if text[0] == "S":
                dim = tensor[int(text[1:])]
                sharded |= set([f for f in dim if extent[f] > 1][:1])
    return ShardStrategy.of({factor: ("a",) for factor in sharded if extent[factor] % 2 == 0})


def _both(text: str, worlds: list[Any]) -> list[tuple[Any, ...]] | None:
    """Return what both ranks compute; None if the local shapes do not fit."""
    try:
        return [evaluate_on(text, [torch.tensor(world[rank]) for world in worlds], LINE, rank) for rank in (0, 1)]
    except (RuntimeError, IndexError, ValueError):
        return None


def _holds(text: str, world: list[Any], full: Any) -> bool:
    """Say whether two ranks hold a tensor of even sizes as a placement says."""
    if text == "P":
        parts, world = [full], [world[0] + world[1]] if world[0].shape == world[1].shape else world
    else:
        parts = list(full.chunk(2, int(text[1:]))) if text[0] == "S" else [full, full]
    return len(parts) == len(world) and all(
        held.shape == part.shape and torch.allclose(held.to(part.dtype), part, rtol=1e-8, atol=1e-8)
        for held, part in zip(world, parts, strict=True)
    )
