"""Losses on shards of the samples, and on shards of the classes."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from .widened import at_least_float32


def mean_loss(
    loss: Callable[..., torch.Tensor], x: torch.Tensor, target: torch.Tensor, *, count: int, **options: float
) -> torch.Tensor:
    """Return this shard's share of the mean of a loss over `count` elements."""
    if x.shape != target.shape:
        raise ValueError(f"a loss of {tuple(x.shape)} and {tuple(target.shape)}")
    return loss(at_least_float32(x), at_least_float32(target), reduction="sum", **options) / count


def token_loss(
    logits: torch.Tensor, labels: torch.Tensor, *, ignore_index: int, label_smoothing: float = 0.0
) -> torch.Tensor:
    """Return each token's negative log-likelihood, zero where the label is ignored."""
    logits = at_least_float32(logits)
    rows, classes = logits.flatten(0, -2), labels.flatten()
    loss = F.cross_entropy(rows, classes, reduction="none", ignore_index=ignore_index, label_smoothing=label_smoothing)
    return loss.view(labels.shape)


def pick_target(
    logits: torch.Tensor, labels: torch.Tensor, *, first: int, label_smoothing: float = 0.0, classes: int = 1
) -> torch.Tensor:
    """Return each label's logit, zero where the label is not among the columns `first …`.

    With smoothing it is mixed with the mean over all classes, of which this shard has a share.
    """
    local = labels - first
    outside = (local < 0) | (local >= logits.shape[-1])
    # A rank without columns picks one of padding, so that its gradient is there and empty.
    columns = logits if logits.shape[-1] else F.pad(logits, (0, 1))
    picked = columns.gather(-1, local.masked_fill(outside, 0).unsqueeze(-1)).squeeze(-1)
    picked = at_least_float32(picked.masked_fill(outside, 0))
    if not label_smoothing:
        return picked
    return (1 - label_smoothing) * picked + label_smoothing / classes * at_least_float32(logits).sum(-1)


def log_loss(
    sum_exp: torch.Tensor, maximum: torch.Tensor, picked: torch.Tensor, labels: torch.Tensor, *, ignore_index: int
) -> torch.Tensor:
    """Return log Σ exp − target logit, zero where the label is ignored."""
    return (sum_exp.log() + maximum - picked).masked_fill(labels == ignore_index, 0)


def count_targets(labels: torch.Tensor, *, ignore_index: int) -> torch.Tensor:
    """Return the number of labels that are not ignored, as fp32."""
    return (labels != ignore_index).sum().float()


def divide(total: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Return total / count; zero targets give zero."""
    return total / count.clamp(min=1).to(total.dtype)
