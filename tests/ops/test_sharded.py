"""Soundness and completeness of the rules: what an operator's exported line computes on shards.

Sound: under every legal strategy, the ranks' results are the result that the strategy's layouts say. Complete: what a
rule refuses is really wrong, or its reason is another than correctness.
"""

from typing import Any
from zlib import crc32

import numpy as np
import pytest

pytest.importorskip("torch")
import torch
import torch.nn.functional as F

from planner.core.graph import Node
from planner.core.strategy import ShardStrategy
from planner.exporters.runtime import operators
from planner.ops import OPS

from .cases import CASES, MESH, codes, evaluate_on, expression, operands_of, run_sharded, strategies, whole
from .ranks import forward, parts_of

NOT_WRONG = {
    **{
        (op, "d"): "fused attention kernels need keys and values of one width"
        for op in ("attention", "full_attention", "masked_attention", "sink_attention", "window_attention")
    },
    ("rotary", "q"): "a pair is turned together",
    ("split", "m0"): "the results have different sizes, and must lie over the same axes",
    ("split", "m1"): "the results have different sizes, and must lie over the same axes",
}
"""Factors that a rule blocks for another reason than a wrong result."""
LINEAR_AND_HELD = {
    ("embedding_bag", 1): "its bag is a reduction that the table does not have; its parts keep a partial sum",
    ("l2_scale", 0): "the sum of squares, which comes from the same operand, needs it whole",
    ("rms_scale", 0): "the mean square, which comes from the same operand, needs it whole",
}
"""Operands in no term although the operator is linear in them."""


def reference(one: Node, operands: list) -> tuple:  # type: ignore[type-arg]
    if one.op == "cross_entropy":
        smoothing = dict(one.attributes).get("label_smoothing", 0.0)
        rows, labels = operands[0].flatten(0, 1), operands[1].flatten()
        return (F.cross_entropy(rows, labels, ignore_index=-100, label_smoothing=smoothing),)
    if one.op == "embedding_bag":
        return (F.embedding_bag(*operands, mode=dict(one.attributes).get("mode", "sum")),)
    if OPS[one.op].kernel == "attention" and parts_of(one, ShardStrategy(), MESH) != ((one, ShardStrategy()),):
        return (attention_written_out(one, *operands),)
    return evaluate_on(expression(one), operands, MESH, 0)


def attention_written_out(one: Node, q: Any, k: Any, v: Any, fourth: Any = None) -> Any:
    """Return attention with what fused kernels do not know, by its definition."""
    attributes = dict(one.attributes)
    heads = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(heads, 1).mT * attributes.get("scale", q.shape[-1] ** -0.5)
    if "softcap" in attributes:
        scores = torch.tanh(scores / attributes["softcap"]) * attributes["softcap"]
    if one.op == "full_attention":
        scores = scores + fourth
    else:
        back = torch.arange(scores.shape[-2])[:, None] - torch.arange(scores.shape[-1])
        scores = scores.masked_fill((back < 0) | (back >= attributes.get("window", scores.shape[-1])), -torch.inf)
    if one.op == "sink_attention":
        scores = torch.cat((scores, fourth[None, :, None, None].expand(*scores.shape[:3], 1)), -1)
    weights = scores.softmax(-1)[..., : k.shape[2]]
    if "dropout" in attributes:
        key = (attributes.get("seed", 0), crc32(f"{one.name}~dropout".encode()), 0, 3)
        shape = tuple(weights.shape)
        weights = operators.dropout(weights, p=attributes["dropout"], key=key, origin=(0, 0, 0, 0), shape=shape)
    return weights @ v.repeat_interleave(heads, 1)


def legal(one: Node) -> list[ShardStrategy]:
    return [s for s in strategies(one, MESH) if not codes(one, s, MESH)]


def test_every_operator_has_a_case() -> None:
    assert {one.op for one in CASES.values()} == set(OPS)


@pytest.mark.parametrize("name", CASES)
def test_legal_strategies_are_right(name: str) -> None:
    one = CASES[name]
    operands = operands_of(one)
    expected = reference(one, operands)
    tried = legal(one)
    assert ShardStrategy() in tried
    for strategy in tried:
        values, _ = forward(one, strategy, operands, MESH)
        for value, full in zip(one.results, expected, strict=True):
            result = values[value.name]
            np.testing.assert_allclose(result, full, rtol=1e-6, atol=1e-6, err_msg=f"{name} under {strategy}")
            if full.dtype.is_floating_point and str(full.dtype) == "torch.float64":
                np.testing.assert_allclose(result, full, rtol=1e-10, atol=1e-10, err_msg=f"{name} under {strategy}")


def wrong(one: Node, strategy: ShardStrategy) -> bool:
    """Say whether the ranks' results are not the result."""
    operands = operands_of(one)
    try:
        made = run_sharded(one, strategy, operands, MESH)
        for (layout, world), full in zip(made, reference(one, operands), strict=True):
            np.testing.assert_allclose(whole(layout, world, tuple(full.shape), MESH), full, rtol=1e-6, atol=1e-6)
    except (AssertionError, RuntimeError, ValueError, IndexError):
        return True
    return False


@pytest.mark.parametrize("name", CASES)
def test_blocked_factors_would_be_wrong(name: str) -> None:
    one = CASES[name]
    for factor, reason in one.rule.blocked:
        if (one.op, factor) in NOT_WRONG:
            assert NOT_WRONG[one.op, factor] == reason
        else:
            assert wrong(one, ShardStrategy.of({factor: ("a",)})), f"{name}: {factor} is blocked without need"


@pytest.mark.parametrize("name", CASES)
def test_minor_factors_would_be_wrong(name: str) -> None:
    one = CASES[name]
    only = [s for s in strategies(one, MESH) if codes(one, s, MESH) == {"rule.minor-factor"}]
    for strategy in only:
        if one.op in {"merge_heads", "split_heads"} and not strategy.axes("e"):
            # Operand and result have (g r) alike: r in place of g gives layouts that g has, under a wrong name.
            continue
        assert wrong(one, strategy), f"{name} under {strategy} is refused without need"


@pytest.mark.parametrize("name", [n for n, one in CASES.items() if one.rule.operands])
def test_an_operand_in_no_term_is_not_linear(name: str) -> None:
    """Partial operands outside the terms, and two partial operands in one term, give another result."""
    one = CASES[name]
    operands = operands_of(one)
    full = reference(one, operands)
    in_terms = {operand for term in one.rule.terms for operand in term}
    floating = {i for i, x in enumerate(operands) if x.is_floating_point()}
    for held in floating - in_terms:
        if (one.op, held) not in LINEAR_AND_HELD:
            assert not _adds_up(one, operands, {held}, full), f"{name} is linear in operand {held}"
    for term in one.rule.terms:
        assert len(term) == 1 or not _adds_up(one, operands, set(term), full)


def _adds_up(one: Node, operands: list, partial: set[int], full: tuple) -> bool:  # type: ignore[type-arg]
    """Say whether the results of two ranks that share out some operands add up to the result."""
    generator = torch.Generator().manual_seed(3)
    first = [
        torch.rand(x.shape, generator=generator, dtype=x.dtype) if i in partial else x for i, x in enumerate(operands)
    ]
    second = [x - y if i in partial else x for i, (x, y) in enumerate(zip(operands, first, strict=True))]
    parts = [reference(one, share) for share in (first, second)]
    return all(np.allclose(sum(p[i] for p in parts), f) for i, f in enumerate(full))
