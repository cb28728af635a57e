"""What the exported lines of masks and tables give, against their definitions written out place by place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from planner.core.mesh import DeviceMesh
from planner.exporters.runtime import operators as ops

from .cases import evaluate_on, expression, node

Sees = Callable[[int, int], bool]
SEEN: dict[str, tuple[dict[str, int], Sees]] = {
    "all": ({}, lambda q, k: k <= q),
    "window": ({"window": 3}, lambda q, k: q - 3 < k <= q),
    "window-one": ({"window": 1}, lambda q, k: k == q),
    "chunk": ({"chunk": 3}, lambda q, k: k <= q and k // 3 == q // 3),
    "reach": ({"reach": 2}, lambda q, k: abs(q - k) <= 2),
}


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize(("first", "first_key"), [(0, 0), (4, 0), (3, 2)])
def test_seen_keys(name: str, first: int, first_key: int) -> None:
    bounds, sees = SEEN[name]
    expected = np.array([[sees(q, k) for k in range(first_key, 8)] for q in range(first, 8)])
    shape = expected.shape
    mask = ops.window_mask(shape, first=first, first_key=first_key, device=torch.device("cpu"), **bounds)
    np.testing.assert_array_equal(mask.numpy(), expected)
    hidden = ops.hide_future(torch.zeros(1, 1, *shape), first=first, first_key=first_key, **bounds)
    np.testing.assert_array_equal(hidden[0, 0].isinf().numpy(), ~expected)


@pytest.mark.parametrize("name", SEEN)
def test_attention_sees_these(name: str) -> None:
    bounds, sees = SEEN[name]
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 8, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    scores = q @ k.mT / 2
    for i in range(8):
        for j in range(8):
            if not sees(i, j):
                scores[:, :, i, j] = -torch.inf
    expected = scores.softmax(-1) @ v
    torch.testing.assert_close(ops.causal_attention(q, k, v, **bounds), expected)
    late = ops.causal_attention(q[:, :, 5:], k, v, first=5, **bounds)
    torch.testing.assert_close(late, expected[:, :, 5:])


def test_masks_that_are_added() -> None:
    one = node("causal_mask", sizes="4, 6", window=2, fill=-3.5)
    (made,) = evaluate_on(expression(one), [], DeviceMesh.of({"a": 2, "b": 2}), 0)
    expected = [[0.0 if q - 2 < k <= q else -3.5 for k in range(6)] for q in range(4)]
    np.testing.assert_array_equal(made.numpy(), expected)


@pytest.mark.parametrize("form", ["halves", "neighbours"])
def test_tables_of_frequencies(form: str) -> None:
    given = (1.0, 0.25, 0.0625)
    table = ops.rotary_table(5, 6, given, first=2, device=torch.device("cpu"), form=form, scale=1.5)
    columns = [given[i // 2 if form == "neighbours" else i % 3] for i in range(6)]
    angles = np.array([[position * frequency for frequency in columns] for position in range(2, 7)])
    for made, expected in zip(table, (np.cos(angles), np.sin(angles)), strict=True):
        np.testing.assert_allclose(made.numpy(), 1.5 * expected, rtol=1e-6)


def test_constants_have_their_values() -> None:
    one = node("constant", sizes="2, 3", values=(0, 1, 1, 0, 0, 1), dtype="bool")
    (made,) = evaluate_on(expression(one), [], DeviceMesh.of({"a": 2, "b": 2}), 0)
    assert made.tolist() == [[False, True, True], [False, False, True]]
