"""Batches: the same global batch for every rank, of which each takes its shard, or reads no more than that."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from .layout import box, shard
from .mesh import Mesh

Range = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class Unread:
    """Rows of a step's samples that are read where a rank asks for some of them.

    Parameters
    ----------
    read
        Ranges of samples and of places in them → whole numbers.
    samples
        Those that this stands for.
    length
        Places of a sample.
    """

    read: Callable[[Range, Range], torch.Tensor]
    samples: Range
    length: int

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and places."""
        return self.samples[1] - self.samples[0], self.length

    def tensor_split(self, count: int, dim: int) -> tuple[Unread, ...]:
        """Return `count` parts of the samples, as equal as can be, as of a tensor."""
        assert dim == 0, "samples lie along the first dim"
        each, more = divmod(self.shape[0], count)
        ends = [self.samples[0] + each * part + min(part, more) for part in range(count + 1)]
        return tuple(replace(self, samples=(ends[part], ends[part + 1])) for part in range(count))

    def part(self, samples: Range, places: Range) -> torch.Tensor:
        """Read a box of it."""
        first = self.samples[0]
        return self.read((first + samples[0], first + samples[1]), places)

    def to(self, device: torch.device | str) -> torch.Tensor:
        """Read all of it."""
        return self.part((0, self.shape[0]), (0, self.length)).to(device)


Batch = tuple[torch.Tensor | Unread, ...]
Source = Callable[[int, int], Batch]
"""Step, and samples taken before it → the model's inputs for all samples of the step, the same on every rank."""


@dataclass(frozen=True, kw_only=True)
class Feed:
    """What an input of the model is fed with.

    Parameters
    ----------
    shape
        Of all samples of an optimizer step.
    dtype
        Element type; `compute` for that of the model.
    layout
        How ranks cut a microbatch of it.
    kind
        `integers` from `low` below `high`; `next`: what the input `next_of` has one place later; `normal` numbers;
        `uniform` ones from `low` to `high`; `mask`: 1 in the first places of each row, at least one; `one_hot` rows.
    ignored
        Label that stands for no target; the last places of some rows have it.
    samples
        Dim along which the samples of a step lie; None for an input that is the same for all microbatches.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: str
    kind: str
    low: float = 0
    high: float = 1
    ignored: int | None = None
    next_of: str = ""
    samples: int | None = None


def synthetic_batch(step: int, feeds: Sequence[Feed], *, seed: int) -> tuple[torch.Tensor, ...]:
    """Return the inputs of a step, whole; floating numbers are float64.

    Rows of labels end after different lengths, so that ranks hold unequal numbers of ignored ones.
    """
    generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
    followed = {feed.next_of for feed in feeds}
    drawn: dict[str, torch.Tensor] = {}
    batch = []
    for feed in feeds:
        if feed.kind == "next":
            x = drawn[feed.next_of][..., 1:].clone()
        else:
            longer = (*feed.shape[:-1], feed.shape[-1] + 1) if feed.name in followed else feed.shape
            drawn[feed.name] = _drawn(feed, longer, generator)
            x = drawn[feed.name][..., : feed.shape[-1]] if feed.shape else drawn[feed.name]
        if feed.ignored is not None:
            length = feed.shape[-1]
            ends = torch.randint(length // 2, length + 1, (*feed.shape[:-1], 1), generator=generator)
            x = x.masked_fill(torch.arange(length) >= ends, feed.ignored)
        batch.append(x)
    return tuple(batch)


def _drawn(feed: Feed, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    match feed.kind:
        case "integers":
            return torch.randint(int(feed.low), int(feed.high), shape, generator=generator)
        case "normal":
            return torch.randn(shape, generator=generator, dtype=torch.float64)
        case "uniform":
            lots = torch.rand(shape, generator=generator, dtype=torch.float64)
            return feed.low + (feed.high - feed.low) * lots
        case "mask":
            length = shape[-1] if shape else 1
            ends = torch.randint(1, length + 1, (*shape[:-1], 1), generator=generator)
            return (torch.arange(length) < ends).reshape(shape).double()
        case "one_hot":
            classes = torch.randint(shape[-1], shape[:-1], generator=generator)
            return F.one_hot(classes, shape[-1]).double()
        case _:
            raise ValueError(f"input {feed.name} can't be fed with {feed.kind!r}")


def microbatch(batch: Batch, feeds: Sequence[Feed], index: int, count: int) -> Batch:
    """Return part `index` of `count` equal ones of a step; an input without samples comes whole."""
    return tuple(
        x if feed.samples is None else x.tensor_split(count, feed.samples)[index]
        for x, feed in zip(batch, feeds, strict=True)
    )


def local_batch(batch: Batch, feeds: Sequence[Feed], mesh: Mesh, compute: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Return this rank's shards of a microbatch, in the model's element types; float64 models get float64 numbers."""
    shards = []
    for x, feed in zip(batch, feeds, strict=True):
        dtype: torch.dtype = compute if feed.dtype == "compute" else getattr(torch, feed.dtype)
        if dtype.is_floating_point and compute == torch.float64:
            dtype = compute
        own = x.part(*box(feed.layout, x.shape, mesh)) if isinstance(x, Unread) else shard(x, feed.layout, mesh)
        shards.append(own.to(mesh.device, dtype))
    return tuple(shards)


def share(batch: Batch, part: Batch, feeds: Sequence[Feed], count: int) -> float:
    """Return what a microbatch counts for in the mean over a step: its share of the labels that are not ignored.

    Where no label is ever ignored, all of the `count` microbatches count alike. A Python number: fp32 would round it.
    """
    for whole, x, feed in zip(batch, part, feeds, strict=True):
        if feed.ignored is not None and feed.samples is not None:
            return _targets(x, feed.ignored) / max(_targets(whole, feed.ignored), 1)
    return 1 / count


def _targets(labels: torch.Tensor | Unread, ignored: int) -> int:
    """Return how many labels are not ignored; files have no negative ones, and are read only to look for others."""
    if isinstance(labels, Unread) and ignored < 0:
        return labels.shape[0] * labels.shape[1]
    return int((labels.to("cpu") != ignored).sum())
