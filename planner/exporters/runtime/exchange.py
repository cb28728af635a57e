"""The direct exchange: every rank sends each box that it owns to who needs it, in one all-to-all with uneven parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial as partial_of
from math import prod

import torch
import torch.distributed as dist

from .layout import Box, box, dims, local_shape, meet, part, partial
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
        out = x.new_empty(local_shape(self.target, self.shape, mesh))
        return logged(mesh, self.kind, self.axes, x, _exchanged(self, x, out, mesh, add=False))


@dataclass(frozen=True)
class SumExchange:
    """Go from one layout to another, and finish or make partial sums on the way, over the group of `axes`.

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
        """Return this rank's shard in the target layout, summed in float32 where elements are shorter."""
        short = x.dtype in (torch.bfloat16, torch.float16)
        shape = local_shape(self.target, self.shape, mesh)
        out = torch.zeros(shape, dtype=torch.float32 if short else x.dtype, device=x.device)
        out = _exchanged(self, x, out, mesh, add=True).to(x.dtype)
        return logged(mesh, "sum_exchange", self.axes, x, out)


@dataclass(frozen=True)
class _Messages:
    """What this rank sends to every member of its group, what it receives from each, and what it keeps."""

    sends: list[Piece | None]
    receives: list[Piece | None]
    own: Box | None


def _exchanged(
    step: Exchange | SumExchange, x: torch.Tensor, out: torch.Tensor, mesh: Mesh, *, add: bool
) -> torch.Tensor:
    """Send and receive the pieces of a step, and write or add what is kept and what comes in to `out`."""
    have, want = box(step.source, step.shape, mesh), box(step.target, step.shape, mesh)
    messages = mesh.once(step, partial_of(_messages, step))
    sizes, counts = ([_length(piece) for piece in side] for side in (messages.sends, messages.receives))
    flat, received = x.new_empty(sum(sizes)), x.new_empty(sum(counts))
    for message, values in zip(messages.sends, flat.split(sizes), strict=True):
        if message is not None:
            _take(part(x, message[0], have), values, *message[1:])
    dist.all_to_all_single(received, flat, counts, sizes, group=mesh.group(step.axes))
    if messages.own is not None:
        place, kept = part(out, messages.own, want), part(x, messages.own, have)
        place.add_(kept) if add else place.copy_(kept)
    for message, values in zip(messages.receives, received.split(counts), strict=True):
        if message is not None:
            _put(part(out, message[0], want), values, *message[1:], add=add)
    return out


def _messages(step: Exchange | SumExchange, mesh: Mesh) -> _Messages:
    """Find the pieces: owners of a box share its demand equally; summands come from one replica, a rank's own if any.

    Of the ranks along axes that become partial, the one at the owner's coordinate gets a value, or at 0 of an axis that
    the source replicates.
    """
    members = sorted(mesh.ranks(step.axes))
    before, after = partial(step.source), partial(step.target)
    finished = tuple(axis for axis in before if axis not in after)
    made = tuple(axis for axis in after if axis not in before)
    sharded = [axis for axes in dims(step.source) for axis in axes]

    def stands(owner: int, reader: int) -> bool:
        coordinates = ((mesh.coordinate(a, owner) if a in sharded else 0, mesh.coordinate(a, reader)) for a in made)
        return all(here == there for here, there in coordinates)

    sends: dict[int, Piece] = {}
    receives: dict[int, Piece] = {}
    wanted = _holders(step.target, step.shape, mesh, members, made)
    for have, summands in _by_box(_holders(step.source, step.shape, mesh, members, finished)).items():
        replicas = {rank: i for owners in summands.values() for i, rank in enumerate(owners)}
        for (want, _), readers in wanted.items():
            common = meet(have, want)
            if common is None or not stands(next(iter(replicas)), readers[0]):
                continue
            size = prod([q - p for p, q in common])
            needy = [rank for rank in readers if rank not in replicas]
            for place, owners in summands.items():
                pairs = [
                    (owners[replicas[rank]], rank, 0, size)
                    for rank in readers
                    if rank in replicas and mesh.index(*finished, rank=rank) != place
                ]
                for owner, reader, start, stop in (*pairs, *_shares(owners, needy, size)):
                    if owner == mesh.rank:
                        sends[reader] = common, start, stop
                    elif reader == mesh.rank:
                        receives[owner] = common, start, stop
    have, want = box(step.source, step.shape, mesh), box(step.target, step.shape, mesh)
    return _Messages(
        sends=[sends.get(rank) for rank in members],
        receives=[receives.get(rank) for rank in members],
        own=meet(have, want) if stands(mesh.rank, mesh.rank) else None,
    )


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
        for (want, _), readers in _holders(self.target, self.shape, mesh, members).items():
            owners = held[want, 0]
            kept = [(rank, rank) for rank in readers if rank in owners]
            rest = zip((r for r in owners if r not in readers), (r for r in readers if r not in owners), strict=True)
            for owner, reader in (*kept, *rest):
                sender = owner if reader == mesh.rank else sender
                receiver = reader if owner == mesh.rank else receiver
        return members, sender, receiver


def _holders(
    layout: str, shape: tuple[int, ...], mesh: Mesh, members: list[int], axes: Axes = ()
) -> dict[tuple[Box, int], list[int]]:
    """Return the boxes that are not empty, with the ranks that hold each, apart by the position along `axes`."""
    found: dict[tuple[Box, int], list[int]] = {}
    for rank in members:
        at = box(layout, shape, mesh, rank)
        if meet(at, at) is not None:
            found.setdefault((at, mesh.index(*axes, rank=rank)), []).append(rank)
    return found


def _by_box(holders: dict[tuple[Box, int], list[int]]) -> dict[Box, dict[int, list[int]]]:
    found: dict[Box, dict[int, list[int]]] = {}
    for (at, place), ranks in holders.items():
        found.setdefault(at, {})[place] = ranks
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


def _put(place: torch.Tensor, values: torch.Tensor, start: int, stop: int, *, add: bool) -> None:
    """Write values to the elements from `start` to `stop`, row-major, of a view, or add them there."""
    if (start, stop) != (0, place.numel()):
        whole = torch.zeros_like(place) if add else place.reshape(-1).clone()
        whole.view(-1)[start:stop] = values
        values = whole
    values = values.view(place.shape)
    place.add_(values) if add else place.copy_(values)
