"""Soundness on unequal parts: axes of 3 and 5 leave ranks with less than others, and with nothing.

The sizes are those of `cases`, so nothing here divides but by chance; what a rule marks even stays whole. Results, and
gradients where there are some, are those of the whole operator on every rank.
"""

import numpy as np
import pytest

pytest.importorskip("torch")
from planner.core.chunk import lengths
from planner.core.graph import Node
from planner.core.mesh import DeviceMesh
from planner.core.strategy import ShardStrategy
from planner.ops import OPS

from .cases import CASES, codes, operands_of, sizes, strategies
from .ranks import backward, forward
from .test_gradients import whole_gradients
from .test_sharded import reference

LINES = {"three": DeviceMesh.of({"a": 3}), "five": DeviceMesh.of({"a": 5})}
GRIDS = {"three by two": DeviceMesh.of({"a": 3, "b": 2}), "two by five": DeviceMesh.of({"a": 2, "b": 5})}


def legal(one: Node, mesh: DeviceMesh) -> list[ShardStrategy]:
    """Return the legal strategies that cut something unevenly."""
    found = [s for s in strategies(one, mesh) if not codes(one, s, mesh)]
    return [s for s in found if any(sizes(one)[f] % mesh.size_of(axes) for f, axes in s.factors)]


def hold(name: str, tried: list[ShardStrategy], mesh: DeviceMesh) -> None:
    """Check results and gradients of a case under strategies."""
    one = CASES[name]
    operands = operands_of(one)
    expected = reference(one, operands)
    seeds, gradients = whole_gradients(one, operands) if OPS[one.op].differentiable else ({}, {})
    for strategy in tried:
        values, runs = forward(one, strategy, operands, mesh)
        for value, full in zip(one.results, expected, strict=True):
            close(values[value.name], full, f"{name} under {strategy}")
        made = backward(one, runs, values, seeds, mesh)
        for operand, gradient in gradients.items():
            close(made[operand], gradient, f"{operand} of {name} under {strategy}")


def close(found, full, message: str) -> None:  # type: ignore[no-untyped-def]
    tight = 1e-9 if str(full.dtype) == "torch.float64" else 1e-6
    np.testing.assert_allclose(found, full.detach(), rtol=tight, atol=tight, err_msg=message)


@pytest.mark.parametrize("mesh", LINES)
@pytest.mark.parametrize("name", CASES)
def test_one_axis(name: str, mesh: str) -> None:
    hold(name, legal(CASES[name], LINES[mesh]), LINES[mesh])


@pytest.mark.parametrize("name", CASES)
def test_two_axes_on_one_factor(name: str) -> None:
    """Chunks of chunks: where they start is no multiple of a length."""
    mesh = GRIDS["three by two"]
    hold(name, [s for s in legal(CASES[name], mesh) if any(len(axes) == 2 for _, axes in s.factors)], mesh)


@pytest.mark.slow
@pytest.mark.parametrize("mesh", GRIDS)
@pytest.mark.parametrize("name", CASES)
def test_two_axes(name: str, mesh: str) -> None:
    hold(name, legal(CASES[name], GRIDS[mesh]), GRIDS[mesh])


def test_all_but_even_factors_are_cut_and_some_ranks_hold_nothing() -> None:
    empty = 0
    for one in CASES.values():
        cut = {f for mesh in LINES.values() for s in legal(one, mesh) for f, _ in s.factors}
        blocked = {f for f, _ in one.rule.blocked} | one.rule.even | {f for f, _ in one.rule.least}
        alone = {f for f in one.rule.factors if all(len(dim) == 1 for t in (*one.rule.operands, *one.rule.results)
                                                     for dim in t if f in dim)}  # fmt: skip
        assert alone - blocked - cut == {f for f in alone - blocked if not any(sizes(one)[f] % n for n in (3, 5))}
        empty += sum(0 in lengths(sizes(one)[f], ("a",), LINES["five"]) for f in cut)
    assert empty > len(CASES)
