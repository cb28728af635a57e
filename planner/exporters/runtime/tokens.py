"""Batches from files of tokens: raw integers without a header, read where they lie on disk.

Samples follow each other in a file and share nothing but the token at which one ends and the next begins, which is only
a label in the first. Every epoch takes each sample of all files once, in an order that depends on the seed and the
epoch alone: any mesh gets the same global batches, and how many samples were taken is all that resuming needs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path

import torch

from .agreement import PlainError
from .data import Batch, Feed, Range, Unread

TYPES = ("uint16", "uint32")


class TokenError(PlainError):
    """A file has a token that the model does not know."""


class TokenFiles:
    """Samples of `length` tokens, each with the token that comes after it.

    Parameters
    ----------
    paths
        Files; their order matters.
    dtype
        One of `TYPES`.
    seed
        Of the order of samples.

    Raises
    ------
    ValueError
        For a file that is no whole number of tokens, and for files without a single sample.
    """

    def __init__(self, paths: Sequence[str], *, dtype: str, length: int, seed: int) -> None:
        self.paths, self.length, self.seed = tuple(paths), length, seed
        self.files = [_mapped(Path(path), dtype) for path in paths]
        self._ends = list(accumulate((file.numel() - 1) // length if file.numel() else 0 for file in self.files))
        self.count = self._ends[-1] if self._ends else 0
        if not self.count:
            raise ValueError(f"{', '.join(paths)}: not one sample of {length} tokens and the one after them")

    def sample(self, index: int, start: int, stop: int) -> torch.Tensor:
        """Return some tokens of a sample by its place in the files; the one after them is at the place `length`."""
        file = bisect_right(self._ends, index)
        first = (index - (self._ends[file - 1] if file else 0)) * self.length
        return self.files[file][first + start : first + stop].to(torch.int64)

    def take(self, samples: Range, places: Range) -> torch.Tensor:
        """Return samples, counted from the start of training, or of each of them no more than some places."""
        rows = [self.sample(self._place(position), *places) for position in range(*samples)]
        return torch.stack(rows) if rows else torch.empty((0, places[1] - places[0]), dtype=torch.int64)

    def _place(self, position: int) -> int:
        epoch, index = divmod(position, self.count)
        return shuffled(index, self.count, self.seed, epoch)

    def batch(self, first: int, feeds: Sequence[Feed]) -> Batch:
        """Return the model's inputs of a step: tokens, and the ones after them as labels; each rank reads its own.

        Reading raises a `TokenError` for a token that the model does not have.
        """
        tokens, labels = token_feeds(feeds)

        def reader(after: int) -> Callable[[Range, Range], torch.Tensor]:
            def read(samples: Range, places: Range) -> torch.Tensor:
                taken = self.take((first + samples[0], first + samples[1]), (places[0] + after, places[1] + after))
                return self._known(taken, int(tokens.high))

            return read

        count = tokens.shape[0]
        return tuple(Unread(read=reader(int(feed is labels)), samples=(0, count), length=self.length) for feed in feeds)

    def _known(self, taken: torch.Tensor, size: int) -> torch.Tensor:
        # An embedding in shards would give zeros for what no rank has, and say nothing.
        largest = int(taken.max()) if taken.numel() else 0
        if largest >= size:
            named = ", ".join(self.paths)
            raise TokenError(
                f"{named}: there is the token {largest}, but the model knows {size}, from 0 on; is --data-type right?"
            )
        return taken


def token_feeds(feeds: Sequence[Feed]) -> tuple[Feed, Feed | None]:
    """Return the inputs that take tokens and the next tokens.

    Raises
    ------
    ValueError
        When a model takes anything else, which files of tokens do not hold.
    """
    tokens = [feed for feed in feeds if feed.kind == "integers" and len(feed.shape) == 2 and feed.samples == 0]
    labels = [feed for feed in feeds if feed.kind == "next" and tokens and feed.next_of == tokens[0].name]
    others = [feed.name for feed in feeds if feed not in tokens[:1] and feed not in labels[:1]]
    if not tokens or others:
        raise ValueError(
            f"files of tokens can't feed {', '.join(others) or 'this model'}; train on synthetic data, or give "
            "parallel.trainer.training a source of your own"
        )
    return tokens[0], labels[0] if labels else None


def shuffled(index: int, count: int, seed: int, epoch: int) -> int:
    """Return where a permutation of `range(count)` sends `index`, without making the permutation.

    A Feistel network permutes the least even number of bits that hold `count`; what it sends outside is
    sent on until it falls inside (Black and Rogaway 2002, "Ciphers with arbitrary finite domains").
    Of few places, fewer than eight rounds prefer some.
    """
    half = max((count - 1).bit_length() + 1, 2) // 2
    mask = (1 << half) - 1
    place = index
    while True:
        left, right = place >> half, place & mask
        for turn in range(8):
            left, right = right, left ^ (_hash(seed, epoch, turn, right) & mask)
        place = left << half | right
        if place < count:
            return place


def _hash(*numbers: int) -> int:
    return int.from_bytes(blake2b(repr(numbers).encode(), digest_size=8).digest(), "big")


def _mapped(path: Path, dtype: str) -> torch.Tensor:
    if dtype not in TYPES:
        raise ValueError(f"tokens are {' or '.join(TYPES)}, not {dtype}")
    kind: torch.dtype = getattr(torch, dtype)
    size = path.stat().st_size
    if size % kind.itemsize:
        raise ValueError(f"{path}: {size} bytes are no whole number of {dtype}")
    # An empty file can't be mapped.
    return torch.from_file(str(path), shared=False, size=size // kind.itemsize, dtype=kind) if size else torch.empty(0)
