"""Synthetic token batches: the same global batch on every rank, of which each takes its shard."""

from __future__ import annotations

import torch

from .layout import shard
from .mesh import Mesh

IGNORED = -100


def synthetic_batch(
    step: int, *, sequences: int, length: int, vocab: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return global tokens and labels, [sequences, length]; labels are the next tokens, with some ignored.

    Sequences end after different lengths, so that ranks hold unequal numbers of ignored labels.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    ids = torch.randint(vocab, (sequences, length + 1), generator=generator)
    tokens, labels = ids[:, :-1], ids[:, 1:].clone()
    ends = torch.randint(length // 2, length + 1, (sequences, 1), generator=generator)
    labels[torch.arange(length) >= ends] = IGNORED
    return tokens, labels


def local_batch(
    batch: tuple[torch.Tensor, torch.Tensor], layouts: tuple[str, str], mesh: Mesh
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return this rank's shards of tokens and labels."""
    tokens, labels = (shard(x, layout, mesh).to(mesh.device) for x, layout in zip(batch, layouts, strict=True))
    return tokens, labels
