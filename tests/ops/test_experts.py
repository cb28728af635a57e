"""Routing against a plain loop over tokens, and recurrent layers against torch's modules."""

import pytest

pytest.importorskip("torch")
import torch
from torch import nn

from planner.exporters.runtime import operators


def routed(probabilities: torch.Tensor, count: int, capacity: int, normalized: bool) -> torch.Tensor:
    """Give out slots one choice after the other."""
    batch, seq, experts = probabilities.shape
    result = torch.zeros(batch, seq, experts, capacity, dtype=probabilities.dtype)
    for b in range(batch):
        used = [0] * experts
        for rank in range(count):
            for s in range(seq):
                row = probabilities[b, s]
                best = sorted(range(experts), key=lambda e: -float(row[e]))[:count]
                expert = best[rank]
                if used[expert] < capacity:
                    share = row[best].sum() if normalized else 1.0
                    result[b, s, expert, used[expert]] = row[expert] / share
                used[expert] += 1
    return result


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize(("count", "capacity"), [(1, 2), (2, 1), (2, 3), (3, 20), (4, 4)])
def test_routing(count: int, capacity: int, normalized: bool) -> None:
    probabilities = torch.rand(3, 7, 4, generator=torch.Generator().manual_seed(count), dtype=torch.float64)
    found = operators.route(probabilities, count=count, capacity=capacity, normalized=normalized)
    torch.testing.assert_close(found, routed(probabilities, count, capacity, normalized))


@pytest.mark.parametrize("capacity", [2, 7])
def test_placing_what_another_router_chose(capacity: int) -> None:
    """Weights that are no probabilities, of experts in no order; and what each of two shards of the experts has."""
    generator = torch.Generator().manual_seed(capacity)
    scores = torch.rand(3, 7, 4, generator=generator, dtype=torch.float64)
    chosen = scores.argsort(-1)[..., [2, 0]]
    weights = torch.randn(3, 7, 2, generator=generator, dtype=torch.float64)
    expected = torch.zeros(3, 7, 4, capacity, dtype=torch.float64)
    for b in range(3):
        used = [0] * 4
        for rank in range(2):
            for s in range(7):
                expert = int(chosen[b, s, rank])
                if used[expert] < capacity:
                    expected[b, s, expert, used[expert]] = weights[b, s, rank]
                used[expert] += 1
    whole = operators.place(weights, chosen, experts=4, capacity=capacity)
    torch.testing.assert_close(whole, expected)
    shards = [operators.place(weights, chosen, experts=2, capacity=capacity, first=first) for first in (0, 2)]
    torch.testing.assert_close(torch.cat(shards, 2), expected)


def test_what_is_dispatched_is_collected() -> None:
    """With room for all and shares that add up to 1, tokens come back as they were."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(2, 5, 6, generator=generator, dtype=torch.float64)
    weights = operators.route(
        torch.rand(2, 5, 4, generator=generator, dtype=torch.float64), count=2, capacity=10, normalized=True
    )
    torch.testing.assert_close(operators.collect(weights, operators.dispatch(weights, x)), x)


@pytest.mark.parametrize(("kind", "module"), [("lstm", nn.LSTM), ("gru", nn.GRU), ("rnn", nn.RNN)])
def test_recurrent_layers_are_torchs(kind: str, module: type[nn.RNNBase]) -> None:
    layer = module(5, 3, batch_first=True, dtype=torch.float64)
    x = torch.randn(2, 4, 5, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    weights = [layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, layer.bias_hh_l0]
    torch.testing.assert_close(operators.recurrent(kind, x, *weights), layer(x)[0])
