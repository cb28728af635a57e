"""The evaluator gives what torch computes, in full and in some rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
import torch.nn.functional as F

from planner.importers.aten.constants.evaluate import Evaluator, is_square, name_of
from planner.importers.aten.constants.numbers import FILLED, FUNCTIONS, MADE, NotConstant
from planner.importers.aten.constants.samples import constant_calls
from planner.importers.aten.program import Call, Program, reads

from .probes import program
from .test_forms import arange, by_filling, by_positions, by_triangle, by_where, chunk, window


def relative_buckets(tokens: Any) -> Any:
    """T5's, of both directions."""
    places = arange(tokens)
    distance = places[None, :] - places[:, None]
    bucket = (distance > 0).to(torch.long) * 16
    distance = distance.abs()
    far = 8 + (torch.log(distance.float() / 8) / math.log(128 / 8) * 8).to(torch.long)
    return bucket + torch.where(distance < 8, distance, torch.min(far, torch.full_like(far, 15)))


def packed(tokens: Any) -> Any:
    """Which queries and keys lie in one sequence, where positions tell where sequences begin."""
    places = arange(tokens)[None].expand(tokens.shape[0], -1)
    starts = (torch.diff(places, dim=-1, prepend=places[:, :1] - 1) != 1).cumsum(-1)
    batch, row = torch.arange(tokens.shape[0])[:, None, None, None], arange(tokens)[None, None, :, None]
    return starts[batch, row] == starts[batch, arange(tokens)[None, None, None, :]]


def shapes(tokens: Any) -> Any:
    x, y = torch.arange(24).view(2, 3, 4), torch.arange(12).view(3, 4)
    first, second = torch.meshgrid(torch.arange(3), torch.arange(2), indexing="ij")
    written = torch.zeros(3, 4, dtype=torch.long).slice_scatter(y[:2], 0, 1)
    return (
        x.transpose(0, 1).flatten(1), torch.stack((y, y.flip(0)), 1).permute(2, 0, 1), x.unflatten(-1, (2, -1)),
        x.movedim(0, -1), torch.cat(x.split([1, 3], -1)[::-1], -1), x.chunk(2, 2)[1], torch.roll(x, (1, -1), (0, 2)),
        torch.roll(y, 5), F.pad(x, (0, 1, 2, 0)), F.pad(y, (1, 1), value=7), y.repeat(2, 1, 3), y[first, second],
        x[:, [0, 2]], x.gather(2, x % 3), x.select(1, -1), x.narrow(2, 1, 2), x.unbind(1)[1], x[..., 1::2], x.amax(1),
        x.amin((0, 2), keepdim=True), x.sum((1, 2)), x.float().mean(-1), x.prod(0), y.max(), y.tril(1), y.triu(-1),
        y.t(), F.one_hot(y % 5, 5), torch.eye(3, 4), y.repeat_interleave(2, 1), torch.diff(y, dim=0), y.cumsum(0),
        (y > 3).any(1), (y > 3).all(), torch.index_select(y, 1, torch.tensor([3, 0])), y.float() @ y.float().T,
        y.squeeze(), y[None, :, None], torch.einsum("ij,kj->ik", y, y), F.embedding(y % 4, torch.eye(4)), written,
        y.select_scatter(y[0], 1 - 1, 2), torch.arange(3, 20, 4), torch.arange(7, 1, -2), torch.full((2, 3), 5),
        y.argmax(1),
    )  # fmt: skip


def numbers(tokens: Any) -> Any:
    x, whole = torch.linspace(0.5, 2, 6), torch.arange(-5, 7)
    return (
        x.exp(), x.log(), x.log1p(), x.rsqrt(), x.sqrt(), torch.sigmoid(x), (-x).abs(), x**3, 2**x, x.pow(0.5),
        x.clamp(min=1), x.clamp(max=1), torch.maximum(x, 1 / x), torch.minimum(x, 1 / x), torch.sign(x - 1), x % 0.7,
        torch.fmod(-x, 0.7), torch.tanh(x), x.square(), x.reciprocal(), x.floor(), x.ceil(), x.cos(), x.sin(), 3 - x,
        whole // 3, whole % 4, torch.div(whole, 3, rounding_mode="trunc"), torch.sub(whole, 2, alpha=3), whole / 3,
        (whole > 0) | (whole == -3), ~(whole >= 2), (whole < 1) & (whole != -2), (whole <= 1) ^ (whole > -2),
        whole.masked_fill(whole > 2, 9), torch.where(whole > 0, whole, 1), torch.logical_and(whole > 0, whole < 3),
        x.to(torch.int64), whole.float(), torch.zeros_like(whole) + torch.ones_like(whole), whole.new_full((2,), 4),
        torch.where(x > 1, x, x.clone()),
    )  # fmt: skip


WAYS = [by_positions, by_filling, by_where, window(9), chunk(5), relative_buckets, packed, shapes, numbers]


@pytest.mark.parametrize("make", WAYS)
def test_values_are_torchs(make: Any) -> None:
    found = program(make)
    calls = constant_calls(found)
    assert {name_of(call) for call in calls.values()} <= set(FUNCTIONS) | set(MADE) | set(FILLED)
    evaluator = Evaluator(calls, {b.name: b for b in found.buffers}, frozenset({("B", 3), ("S", 11)}))
    for value, expected in zip(results(found, calls), given(make), strict=True):
        np.testing.assert_allclose(evaluator.value(value), expected.numpy(), rtol=1e-6)


def results(found: Program, calls: Mapping[str, Call]) -> list[str]:
    """Return the names of what a probe multiplies with its weight."""
    products = [call for call in found.calls if call.name not in calls and call.target.startswith("aten.mul")]
    return [name for call in products for name in reads(call) if name.partition(":")[0] in calls]


def given(make: Any) -> tuple[Any, ...]:
    """Return what torch makes for 3 sequences of 11."""
    made = make(torch.zeros(3, 11, dtype=torch.long))
    return made if isinstance(made, tuple) else (made,)


@pytest.mark.parametrize("make", [by_positions, by_filling, by_where, by_triangle, window(9), chunk(5), packed])
def test_rows_of_squares_are_torchs(make: Any) -> None:
    found = program(make)
    calls, rows = constant_calls(found), np.array([0, 1, 4, 10])
    assert any(is_square(meta) for call in calls.values() for meta in call.results)
    evaluator = Evaluator(calls, {}, frozenset({("B", 3), ("S", 11)}), rows)
    (value,) = results(found, calls)
    np.testing.assert_array_equal(evaluator.value(value), given(make)[0].numpy()[..., rows, :])


def test_what_is_too_large_is_not_computed() -> None:
    found = program(by_positions)
    calls = constant_calls(found)
    evaluator = Evaluator(calls, {}, frozenset({("B", 3), ("S", 10_000)}))
    with pytest.raises(NotConstant, match="more than"):
        evaluator.value(results(found, calls)[0])


def test_random_numbers_and_inputs_are_no_constants() -> None:
    found = program(lambda tokens: torch.rand(tokens.shape[1]) + torch.zeros_like(tokens[0]) + tokens[0])
    assert {name_of(call) for call in constant_calls(found).values()} == {"zeros_like"}
