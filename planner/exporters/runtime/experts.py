"""Experts: which tokens go to which slots of which expert, the way there and back, and the product there."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def route(probabilities: torch.Tensor, *, count: int, capacity: int, normalized: bool) -> torch.Tensor:
    """Return the weights of tokens in slots, [batch, seq, experts, capacity].

    Each token goes to its `count` best experts, first choices before second ones, in order of position; an expert has
    `capacity` slots a sequence, and what comes later is dropped. Weights are the probabilities, or their shares.
    """
    weights, chosen = probabilities.topk(count, dim=-1)
    if normalized:
        weights = weights / weights.sum(-1, keepdim=True)
    return place(weights, chosen, experts=probabilities.shape[-1], capacity=capacity)


def place(weights: torch.Tensor, chosen: torch.Tensor, *, experts: int, capacity: int, first: int = 0) -> torch.Tensor:
    """Return the weights of tokens in slots, [batch, seq, experts, capacity], of the experts that each token chose.

    First choices come before second ones, in order of position; what comes later than `capacity` is dropped. `first`
    is the first expert of a shard.
    """
    here = (chosen >= first) & (chosen < first + experts)
    chosen = torch.where(here, chosen - first, experts)
    # In the order in which slots are given out: [batch, count · seq, experts].
    queue = F.one_hot(chosen, experts + 1).transpose(1, 2).flatten(1, 2)
    before = (queue.cumsum(1) - queue).unflatten(1, (chosen.shape[2], chosen.shape[1])).transpose(1, 2)
    slot = before.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
    slots = experts * capacity
    target = torch.where(here & (slot < capacity), chosen * capacity + slot, slots)
    # The last place is for what is dropped.
    taken = weights.new_zeros(*weights.shape[:2], slots + 1).scatter_add(-1, target, weights)
    return taken[..., :-1].unflatten(-1, (experts, capacity))


def dispatch(weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Copy tokens, [batch, seq, k], to the slots in which they have a weight: [experts, batch, slots, k]."""
    taken = (weights != 0).to(x.dtype).flatten(2)
    return torch.bmm(taken.transpose(1, 2), x).unflatten(1, weights.shape[2:]).transpose(0, 1)


def collect(weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Add up what is in the slots of each token by its weights: [batch, seq, n]."""
    return torch.bmm(weights.flatten(2), x.transpose(0, 1).flatten(1, 2))


def expert_linear(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Multiply the tokens of each expert, [experts, …, k], with its matrix, [experts, n, k]."""
    rows = x.flatten(1, -2)
    return torch.bmm(rows, weight.transpose(1, 2)).unflatten(1, x.shape[1:-1])
