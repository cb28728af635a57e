"""Attention on shards: which keys a query sees, its steps one by one, and torch's kernel where it will do."""

from __future__ import annotations

import torch
import torch.nn.functional as F


def causal_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    first: int | None = None,
    scale: float | None = None,
    **bounds: int,
) -> torch.Tensor:
    """Attend to keys up to each query's position, or to fewer of them by the `bounds` of `hide_future`.

    `first` is the global position of the first query of a shard.
    """
    grouped = q.shape[1] != k.shape[1]
    if first is None and not bounds:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale, enable_gqa=grouped)
    seen = ~_hidden(q.shape[2], k.shape[2], first or 0, 0, q.device, **bounds)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen, scale=scale, enable_gqa=grouped)


def full_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    scale: float | None = None,
) -> torch.Tensor:
    """Attend to all keys, with a bias on the scores, or to those that a mask shows."""
    grouped = q.shape[1] != k.shape[1]
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale, enable_gqa=grouped)
    if bias is None or out.numel() or not bias.requires_grad:
        return out
    # torch forgets the bias of an empty result. Its gradient of zeros has to come back all the same: where that is
    # redistributed, the ranks that have some wait for this one.
    return out + bias.sum()


def attention_scores(q: torch.Tensor, k: torch.Tensor, *, scale: float) -> torch.Tensor:
    """Multiply queries with the keys of their group."""
    groups, queries = k.shape[1], q.shape[2]
    rows = q.unflatten(1, (groups, q.shape[1] // groups)).flatten(2, 3)
    scores = torch.matmul(rows, k.transpose(-1, -2)) * scale
    return scores.unflatten(2, (q.shape[1] // groups, queries)).flatten(1, 2)


def hide_future(scores: torch.Tensor, *, first: int = 0, first_key: int = 0, **bounds: int) -> torch.Tensor:
    """Put −∞ for keys that a query does not see; rows and columns begin at `first` and `first_key`.

    It sees those up to its own position: all, the last `window`, or those of its `chunk`; or, by `reach`, those at most
    so far before and after it.
    """
    queries, keys = scores.shape[2:]
    return scores.masked_fill(_hidden(queries, keys, first, first_key, scores.device, **bounds), float("-inf"))


def window_mask(
    shape: tuple[int, ...], *, device: torch.device, first: int = 0, first_key: int = 0, **bounds: int
) -> torch.Tensor:
    """Return which keys queries see by the bounds of `hide_future`; rows and columns begin at `first`, `first_key`."""
    return ~_hidden(shape[-2], shape[-1], first, first_key, device, **bounds).expand(shape)


def _hidden(
    queries: int,
    keys: int,
    first: int,
    first_key: int,
    device: torch.device,
    *,
    window: int | None = None,
    chunk: int | None = None,
    reach: int | None = None,
) -> torch.Tensor:
    query = torch.arange(first, first + queries, device=device).unsqueeze(-1)
    key = torch.arange(first_key, first_key + keys, device=device)
    if reach is not None:
        return (query - key).abs() > reach
    hidden = key > query
    if window is not None:
        hidden = hidden | (query - key >= window)
    return hidden if chunk is None else hidden | (key < query // chunk * chunk)


def sink_max(maximum: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
    """Return the larger of each row's maximum, [batch, heads, queries], and its head's sink, without gradient."""
    return torch.maximum(maximum, sinks.detach().unsqueeze(-1).to(maximum.dtype))


def add_sink(sum_exp: torch.Tensor, maximum: torch.Tensor, sinks: torch.Tensor) -> torch.Tensor:
    """Return the sum of exponentials of each row with that of its head's sink."""
    return sum_exp + (sinks.unsqueeze(-1).to(sum_exp.dtype) - maximum).exp()


def attend(weights: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Sum the values of a group by each query's weights."""
    groups, queries = v.shape[1], weights.shape[2]
    rows = weights.unflatten(1, (groups, weights.shape[1] // groups)).flatten(2, 3)
    return torch.matmul(rows, v).unflatten(2, (weights.shape[1] // groups, queries)).flatten(1, 2)
