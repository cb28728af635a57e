"""Operators that need to know where their shard lies, or that torch has no single call for: all by one name."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from .attention import (
    add_sink,
    attend,
    attention_scores,
    causal_attention,
    full_attention,
    hide_future,
    sink_max,
    window_mask,
)
from .dropout import dropout
from .experts import collect, dispatch, expert_linear, place, route
from .losses import count_targets, divide, log_loss, mean_loss, pick_target, token_loss
from .norms import batch_norm, l2_scale, mean_square, moments, normalize, rms_scale
from .rotary import rotary_table, rotate
from .softmax import log_softmax_shift, row_max, softmax_scale, sum_exp

__all__ = [
    "add_sink", "attend", "attention_scores", "batch_norm", "cast", "causal_attention", "collect", "compare",
    "count_targets", "dispatch", "divide", "dropout", "embedding_of_shard", "expert_linear", "full_attention",
    "hide_future", "l2_scale", "log_loss", "log_softmax_shift", "mean_loss", "mean_square", "moments", "normalize",
    "pick_target", "place", "recurrent", "rms_scale", "rotary_table", "rotate", "route", "row_max", "sink_max",
    "softmax_scale", "sum_exp", "token_loss", "window_mask",
]  # fmt: skip


def embedding_of_shard(
    tokens: torch.Tensor, weight: torch.Tensor, *, first: int, padding: int | None = None
) -> torch.Tensor:
    """Look up tokens in rows `first …` of the table; tokens outside them give zero rows, `padding` no gradient."""
    local = tokens - first
    outside = (local < 0) | (local >= weight.shape[0])
    # A rank without rows picks one of padding, so that its gradient is there and empty.
    rows = weight if weight.shape[0] else F.pad(weight, (0, 0, 0, 1))
    held = padding is not None and 0 <= padding - first < weight.shape[0]
    picked = F.embedding(local.masked_fill(outside, 0), rows, padding - first if padding is not None and held else None)
    return picked.masked_fill(outside.unsqueeze(-1), 0)


def recurrent(
    kind: str,
    x: torch.Tensor,
    weight_input: torch.Tensor,
    weight_state: torch.Tensor,
    bias_input: torch.Tensor | None = None,
    bias_state: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return the states of one recurrent layer, `lstm`, `gru` or `rnn`, after every step, from zero."""
    if not x.numel():
        used = x.sum() + weight_input.sum() + weight_state.sum()
        used = used if bias_input is None or bias_state is None else used + bias_input.sum() + bias_state.sum()
        return (used * 0).expand(*x.shape[:2], weight_state.shape[1])
    zero = x.new_zeros(1, x.shape[0], weight_state.shape[1])
    weights = [weight_input, weight_state]
    weights += [] if bias_input is None or bias_state is None else [bias_input, bias_state]
    run: Callable[..., tuple[torch.Tensor, ...]] = getattr(torch, "rnn_tanh" if kind == "rnn" else kind)
    states = (zero, zero) if kind == "lstm" else zero
    # One layer without dropout, in one direction, batch first.
    return run(x, states, weights, len(weights) == 4, 1, 0.0, False, False, True)[0]


def cast(x: torch.Tensor, dtype: str, compute: torch.dtype) -> torch.Tensor:
    """Return x in an element type, or in `compute`, the model's; in float64, where plans are proven, numbers stay."""
    target: torch.dtype = compute if dtype == "compute" else getattr(torch, dtype)
    return x if x.dtype == torch.float64 and target.is_floating_point else x.to(target)


def compare(x: torch.Tensor, relation: str, y: torch.Tensor) -> torch.Tensor:
    """Return where x is `lt`, `le`, `eq`, `ne`, `ge` or `gt` than y."""
    holds: torch.Tensor = getattr(torch, relation)(x, y)
    return holds
