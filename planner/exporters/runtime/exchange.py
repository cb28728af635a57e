"""The direct exchange: every rank sends each box that it owns to who needs it, in one all-to-all with uneven parts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist

from .layout import Box, box
from .mesh import Axes, Mesh
from .steps import _logged


@dataclass(frozen=True)
class Exchange:
    """Go from one layout to another without partial results, over the group of `axes`.

    Parameters
    ----------
    source, target
        Layouts as printed.
    shape
        Global shape.
    """

    source: str
    target: str
    shape: tuple[int, ...]
    axes: Axes

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's shard in the target layout."""
        members = sorted(mesh.ranks(self.axes))
        have, want = box(self.source, self.shape, mesh), box(self.target, self.shape, mesh)
        out = x.new_empty([stop - start for start, stop in want])
        sends = [_pick(x, have, part) for part in self._parts(mesh, members, sender=mesh.rank)]
        receives = self._parts(mesh, members, receiver=mesh.rank)
        counts = [_volume(part) for part in receives]
        received = x.new_empty(sum(counts))
        flat = torch.cat([piece.reshape(-1) for piece in sends]) if sends else x.new_empty(0)
        dist.all_to_all_single(received, flat, counts, [piece.numel() for piece in sends], group=mesh.group(self.axes))
        own = _meet(have, want)
        if own is not None:
            _view(out, want, own).copy_(_view(x, have, own))
        for part, piece in zip(receives, received.split(counts), strict=True):
            if part is not None:
                target = _view(out, want, part)
                target.copy_(piece.view(target.shape))
        return _logged(mesh, "exchange", self.axes, x, out)

    def _parts(
        self, mesh: Mesh, members: list[int], *, sender: int | None = None, receiver: int | None = None
    ) -> list[Box | None]:
        """Return, per other end in the group, the box that goes between it and this rank.

        A box with several owners is sent by the receiver itself if it is one, else by one owner; receivers take
        turns, so that the owners share the demand.
        """
        table: dict[tuple[int, int], Box] = {}
        owners: dict[Box, list[int]] = {}
        for rank in members:
            owners.setdefault(box(self.source, self.shape, mesh, rank), []).append(rank)
        for have, holders in owners.items():
            turn = 0
            for rank in members:
                part = _meet(have, box(self.target, self.shape, mesh, rank))
                if part is None or rank in holders:
                    continue
                table[holders[turn % len(holders)], rank] = part
                turn += 1
        if sender is not None:
            return [table.get((sender, rank)) for rank in members]
        return [table.get((rank, receiver)) for rank in members if receiver is not None]


def _meet(a: Box, b: Box) -> Box | None:
    ranges = tuple((max(p, r), min(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))
    return ranges if all(start < stop for start, stop in ranges) else None


def _volume(part: Box | None) -> int:
    count = 0 if part is None else 1
    for start, stop in part or ():
        count *= stop - start
    return count


def _view(x: torch.Tensor, at: Box, part: Box) -> torch.Tensor:
    return x[tuple(slice(p - start, q - start) for (p, q), (start, _) in zip(part, at, strict=True))]


def _pick(x: torch.Tensor, at: Box, part: Box | None) -> torch.Tensor:
    return x.new_empty(0) if part is None else _view(x, at, part)
