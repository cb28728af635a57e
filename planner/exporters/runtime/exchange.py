"""The direct exchange: every rank sends each box that it owns to who needs it, in one all-to-all with uneven parts."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
import torch.distributed as dist

from .layout import Box, box, meet, part
from .mesh import Axes, Mesh
from .steps import logged

Piece = tuple[Box, int, int]
"""A box and the range of its elements, row-major, that goes in one message."""


@dataclass(frozen=True)
class Exchange:
    """Go from one layout to another with the same partial results, over the group of `axes`.

    Parameters
    ----------
    source, target
        Layouts as printed.
    shape
        Global shape.
    kind
        What the plan calls it: a gather or all-to-all of unequal parts, or an all-to-all on several dims, is one.
    """

    source: str
    target: str
    shape: tuple[int, ...]
    axes: Axes
    kind: str = "exchange"

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's shard in the target layout."""
        have, want = box(self.source, self.shape, mesh), box(self.target, self.shape, mesh)
        sends, receives = mesh.once(self, self._messages)
        sizes, counts = [_length(piece) for piece in sends], [_length(piece) for piece in receives]
        flat, received = x.new_empty(sum(sizes)), x.new_empty(sum(counts))
        for message, values in zip(sends, flat.split(sizes), strict=True):
            if message is not None:
                _take(part(x, message[0], have), values, *message[1:])
        dist.all_to_all_single(received, flat, counts, sizes, group=mesh.group(self.axes))
        out = x.new_empty([stop - start for start, stop in want])
        own = meet(have, want)
        if own is not None:
            part(out, own, want).copy_(part(x, own, have))
        for message, values in zip(receives, received.split(counts), strict=True):
            if message is not None:
                _put(part(out, message[0], want), values, *message[1:])
        return logged(mesh, self.kind, self.axes, x, out)

    def _messages(self, mesh: Mesh) -> tuple[list[Piece | None], list[Piece | None]]:
        """Return what this rank sends to every member of its group, and what it receives from each."""
        members = sorted(mesh.ranks(self.axes))
        held = _holders(self.source, self.shape, mesh, members)
        wanted = _holders(self.target, self.shape, mesh, members)
        sends: dict[int, Piece] = {}
        receives: dict[int, Piece] = {}
        for have, owners in held.items():
            for want, readers in wanted.items():
                if mesh.rank not in owners and mesh.rank not in readers:
                    continue
                common = meet(have, want)
                needy = [rank for rank in readers if rank not in owners]
                if common is None or not needy:
                    continue
                for owner, reader, start, stop in _shares(owners, needy, prod(q - p for p, q in common)):
                    if owner == mesh.rank:
                        sends[reader] = common, start, stop
                    elif reader == mesh.rank:
                        receives[owner] = common, start, stop
        return [sends.get(rank) for rank in members], [receives.get(rank) for rank in members]


@dataclass(frozen=True)
class Permute:
    """Pass the whole shard on to one rank and get that of another, over the group of `axes`.

    Parameters
    ----------
    source, target
        Layouts as printed; they cut the tensor into the same boxes.
    shape
        Global shape.
    """

    source: str
    target: str
    shape: tuple[int, ...]
    axes: Axes

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's shard in the target layout."""
        members, sender, receiver = mesh.once(self, self._ends)
        want = box(self.target, self.shape, mesh)
        out = x.new_empty([stop - start for start, stop in want])
        if sender == mesh.rank:
            out.copy_(x)
        received = [out.numel() if rank == sender != mesh.rank else 0 for rank in members]
        sent = [x.numel() if rank == receiver != mesh.rank else 0 for rank in members]
        into = out.view(-1) if any(received) else x.new_empty(0)
        flat = x.reshape(-1) if any(sent) else x.new_empty(0)
        dist.all_to_all_single(into, flat, received, sent, group=mesh.group(self.axes))
        return logged(mesh, "permute", self.axes, x, out)

    def _ends(self, mesh: Mesh) -> tuple[list[int], int | None, int | None]:
        """Return the group, the rank that serves this one, and the one that it serves; None where there is none."""
        members = sorted(mesh.ranks(self.axes))
        held = _holders(self.source, self.shape, mesh, members)
        sender = receiver = None
        for want, readers in _holders(self.target, self.shape, mesh, members).items():
            owners = held[want]
            kept = [(rank, rank) for rank in readers if rank in owners]
            rest = zip((r for r in owners if r not in readers), (r for r in readers if r not in owners), strict=True)
            for owner, reader in (*kept, *rest):
                sender = owner if reader == mesh.rank else sender
                receiver = reader if owner == mesh.rank else receiver
        return members, sender, receiver


def _holders(layout: str, shape: tuple[int, ...], mesh: Mesh, members: list[int]) -> dict[Box, list[int]]:
    """Return the boxes that are not empty, with the ranks that hold each."""
    found: dict[Box, list[int]] = {}
    for rank in members:
        at = box(layout, shape, mesh, rank)
        if meet(at, at) is not None:
            found.setdefault(at, []).append(rank)
    return found


def _shares(owners: list[int], needy: list[int], size: int) -> list[tuple[int, int, int, int]]:
    """Return owner, reader, start, stop: the demand for a piece, reader after reader, cut equally among its owners."""
    found = []
    for i, owner in enumerate(owners):
        begin = i * size * len(needy) // len(owners)
        end = (i + 1) * size * len(needy) // len(owners)
        while begin < end:
            reader, offset = divmod(begin, size)
            stop = min(size, offset + end - begin)
            found.append((owner, needy[reader], offset, stop))
            begin += stop - offset
    return found


def _length(piece: Piece | None) -> int:
    return 0 if piece is None else piece[2] - piece[1]


def _take(place: torch.Tensor, values: torch.Tensor, start: int, stop: int) -> None:
    """Read the elements from `start` to `stop`, row-major, of a view."""
    if (start, stop) == (0, place.numel()):
        values.view(place.shape).copy_(place)
    else:
        values.copy_(place.reshape(-1)[start:stop])


def _put(place: torch.Tensor, values: torch.Tensor, start: int, stop: int) -> None:
    """Write values to the elements from `start` to `stop`, row-major, of a view."""
    if (start, stop) == (0, place.numel()):
        place.copy_(values.view(place.shape))
        return
    flat = place.reshape(-1).clone()
    flat[start:stop] = values
    place.copy_(flat.view(place.shape))
