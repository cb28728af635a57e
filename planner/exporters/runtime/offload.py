"""Parameters on the host: each is brought to the device before it is used, the next ones on their way meanwhile.

The order in which parameters are asked for is that of the step before: what came after the last two is what comes next.
A copy that was started before its parameter changed is not used.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .mesh import Mesh

Before = tuple[int | None, int | None]


@dataclass(frozen=True)
class _Copy:
    """A copy on its way, of a version of a parameter; `ready` is set where a stream of its own makes it."""

    value: torch.Tensor
    version: int
    ready: torch.cuda.Event | None


class Fetcher:
    """Copies host parameters to the device of one mesh.

    Attributes
    ----------
    peak
        Most bytes of copies that were there at once, started ones with them.
    """

    def __init__(self, mesh: Mesh) -> None:
        self.device = mesh.device
        self.peak = 0
        self._stream = torch.cuda.Stream(mesh.device) if mesh.device.type == "cuda" else None
        self._follows: dict[Before, torch.Tensor] = {}
        self._started: dict[int, _Copy] = {}
        self._last: Before = (None, None)
        self._living: list[tuple[StorageWeakRef, int]] = []

    def fetch(self, value: torch.Tensor, ahead: int) -> torch.Tensor:
        """Return a host parameter on the device, and start the `ahead` ones that are expected next."""
        key = value.data_ptr()
        self._follows[self._last] = value
        self._last = (self._last[1], key)
        copy = self._started.pop(key, None)
        if copy is None or copy.version != value._version:
            copy = self._copied(value)
        wanted = self._next(ahead)
        self._started = {place: started for place, started in self._started.items() if place in wanted}
        for place, following in wanted.items():
            if place not in self._started and following.numel():
                self._started[place] = self._copied(following)
        if copy.ready is not None:
            now = torch.cuda.current_stream(self.device)
            now.wait_event(copy.ready)
            copy.value.record_stream(now)
        return copy.value

    @property
    def nbytes(self) -> int:
        """Bytes of all copies that are there."""
        self._living = [(ref, size) for ref, size in self._living if not ref.expired()]
        return sum(size for _, size in self._living)

    def _next(self, ahead: int) -> dict[int, torch.Tensor]:
        found: dict[int, torch.Tensor] = {}
        before = self._last
        while len(found) < ahead and before in self._follows:
            value = self._follows[before]
            if value.data_ptr() in found:
                break
            found[value.data_ptr()] = value
            before = (before[1], value.data_ptr())
        return found

    @torch.no_grad()
    def _copied(self, value: torch.Tensor) -> _Copy:
        ready = None
        if self._stream is None:
            copy = value.detach().to(self.device, copy=True)
        else:
            with torch.cuda.stream(self._stream):
                copy = value.detach().to(self.device, non_blocking=True, copy=True)
                ready = torch.cuda.Event()
                ready.record(self._stream)
        storage = copy.untyped_storage()
        self._living.append((StorageWeakRef(storage), storage.nbytes()))
        self.peak = max(self.peak, self.nbytes)
        return _Copy(copy, value._version, ready)


def fetcher(mesh: Mesh) -> Fetcher:
    """Return the one that fetches for a mesh."""
    return mesh.once(Fetcher, Fetcher)


def fetch(value: torch.Tensor, mesh: Mesh, ahead: int) -> torch.Tensor:
    """Return a host parameter on the device, and start the `ahead` ones that are expected next."""
    return fetcher(mesh).fetch(value, ahead)
