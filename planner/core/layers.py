"""Which layers of a list a token of a name stands for: `*` for all, `3-60` for some, `0-22+2` for every second.

A repeated block stands for the layers `first, first + step, …` of a list of modules. Their names hold the token where
the index is: `model.layers.3-60.mlp.gate_proj`. Invariant: `Layers.parse(str(x)) == x`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_TOKEN = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?:\+(\d{1,9}))?)?")
_SEVERAL = re.compile(r"(?<![^.])\d{1,9}-\d{1,9}(?:\+\d{1,9})?(?![^./])")


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers `first, first + step, …` of a list, `count` of them."""

    first: int
    count: int
    step: int = 1

    @property
    def last(self) -> int:
        """The last of them."""
        return self.first + (self.count - 1) * self.step

    def index(self, iteration: int) -> int:
        """Return which layer of the list one of them is, counted from 0."""
        return self.first + iteration * self.step

    def part(self, start: int, stop: int) -> Layers:
        """Return those from iteration `start` to `stop - 1`."""
        return Layers(self.index(start), stop - start, self.step)

    def span(self, wanted: Layers) -> tuple[int, int] | None:
        """Return the iterations `start … stop-1` that are among `wanted`.

        None if there are none, or if they do not follow each other.
        """
        start = max(0, -((self.first - wanted.first) // self.step))
        stop = min(self.count, (wanted.last - self.first) // self.step + 1)
        if stop <= start:
            return None
        apart = (self.index(start) - wanted.first) % wanted.step
        return None if apart or (stop - start > 1 and self.step % wanted.step) else (start, stop)

    @staticmethod
    def parse(text: str) -> Layers | None:
        """Read `3`, `3-60` or `0-22+2`; None for what is no such text, or ends before it begins."""
        match = _TOKEN.fullmatch(text)
        if match is None:
            return None
        first, step = int(match[1]), int(match[3] or 1)
        last = int(match[2] or first)
        if last < first or step == 0:
            return None
        return Layers(first, (last - first) // step + 1, step)

    def __str__(self) -> str:
        if self.count == 1:
            return f"{self.first}-{self.first}"
        return f"{self.first}-{self.last}" + (f"+{self.step}" if self.step > 1 else "")


@lru_cache(maxsize=4096)
def list_of(name: str) -> tuple[str, Layers | None]:
    """Return the path of the list that a repeat called `name` runs through, and which of its layers; None for all."""
    path, _, token = name.rpartition(".")
    layers = Layers.parse(token) if "-" in token else None
    return (name, None) if layers is None else (path, layers)


@lru_cache(maxsize=4096)
def templates(name: str, period: int = 1) -> tuple[str, ...]:
    """Return the paths of the layers of one iteration of a repeat, with tokens for their indices."""
    path, layers = list_of(name)
    if layers is None:
        return (f"{name}.*",)
    count = layers.count // period
    return tuple(f"{path}.{Layers(layers.first + place, count, period)}" for place in range(period))


def of_all_layers(name: str) -> str:
    """Return a name with `*` for the layers that it stands for: the same for all runs that a list is cut into."""
    return _SEVERAL.sub("*", name)
