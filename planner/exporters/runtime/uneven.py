"""Steps on dims whose size the axes do not divide: unequal parts, some of them perhaps empty, and no padding.

An all-gather or all-to-all of unequal parts is an `Exchange`. A library's reduce-scatter takes equal parts only, so
here every rank sends each other one its part of the summands, and adds what it gets: in float32 where elements are
shorter, as a reduction on the way would, so that a sum over many ranks does not lose what each addition rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.distributed as dist

from .layout import box, local_shape, part
from .mesh import Axes, Mesh
from .steps import logged, mean_of

_SHORT = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class ReduceParts:
    """Reduce the partial results over `axes` and keep this rank's part in the target layout.

    Parameters
    ----------
    source, target
        Layouts as printed.
    shape
        Global shape.
    op
        `sum`, `mean`, `max` or `min`.
    """

    source: str
    target: str
    shape: tuple[int, ...]
    axes: Axes
    op: str = "sum"

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's part of the result."""
        members = sorted(mesh.ranks(self.axes))
        place = members.index(mesh.rank)
        have = box(self.source, self.shape, mesh)
        parts = [part(x, box(self.target, self.shape, mesh, rank), have) for rank in members]
        own = parts[place].reshape(-1)
        sizes = [p.numel() if i != place else 0 for i, p in enumerate(parts)]
        counts = [own.numel() if i != place else 0 for i in range(len(parts))]
        flat, received = x.new_empty(sum(sizes)), x.new_empty(sum(counts))
        for piece, values, size in zip(parts, flat.split(sizes), sizes, strict=True):
            if size:
                values.view(piece.shape).copy_(piece)
        dist.all_to_all_single(received, flat, counts, sizes, group=mesh.group(self.axes))
        summands = list(received.split(counts))
        summands[place] = own
        total = self._reduced(summands).to(x.dtype)
        return logged(mesh, "reduce_scatter", self.axes, x, total.view(local_shape(self.target, self.shape, mesh)))

    def _reduced(self, parts: list[torch.Tensor]) -> torch.Tensor:
        adds = self.op in ("sum", "mean")
        total = parts[0].to(torch.float32 if adds and parts[0].dtype in _SHORT else parts[0].dtype, copy=True)
        for part_of_it in parts[1:]:
            if adds:
                total += part_of_it
            else:
                (torch.maximum if self.op == "max" else torch.minimum)(total, part_of_it, out=total)
        return mean_of(total, len(parts)) if self.op == "mean" else total


@dataclass(frozen=True)
class PadParts:
    """Make a shard a partial sum: put it in its place in a tensor of zeros.

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

    def __call__(self, x: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        """Return this rank's summand."""
        out = x.new_zeros(local_shape(self.target, self.shape, mesh))
        part(out, box(self.source, self.shape, mesh), box(self.target, self.shape, mesh)).copy_(x)
        return out
