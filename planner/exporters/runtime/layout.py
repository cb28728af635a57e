"""Where a rank's shard of a tensor lies: layouts as printed in the plan, e.g. `[dp, tp·cp, -]`.

Sizes that do not divide are cut axis by axis into chunks of one size, rounded up: the last ones may be shorter or
empty.
"""

from __future__ import annotations

import torch

from .mesh import Axes, Mesh

Box = tuple[tuple[int, int], ...]


def dims(layout: str) -> tuple[Axes, ...]:
    """Return, per tensor dim, the axes that shard it."""
    body = layout[layout.index("[") + 1 : layout.index("]")]
    return tuple(() if part.strip() == "-" else tuple(part.strip().split("·")) for part in body.split(",") if part)


def partial(layout: str) -> Axes:
    """Return the axes over which values are partial results."""
    rest = layout[layout.index("]") + 1 :].strip()
    rest = rest[rest.index("(") + 1 : -1] if rest.endswith(")") else rest.removeprefix("+")
    return tuple(rest.strip().split("·")) if rest else ()


def box(layout: str, shape: tuple[int, ...], mesh: Mesh, rank: int | None = None) -> Box:
    """Return the index range (start, stop) that a rank holds, per dim."""
    return tuple(mesh.chunk(size, *axes, rank=rank) for axes, size in zip(dims(layout), shape, strict=True))


def local_shape(layout: str, shape: tuple[int, ...], mesh: Mesh, rank: int | None = None) -> tuple[int, ...]:
    """Return the shape of this rank's shard, or of another's."""
    return tuple(stop - start for start, stop in box(layout, shape, mesh, rank))


def shard(full: torch.Tensor, layout: str, mesh: Mesh) -> torch.Tensor:
    """Cut this rank's shard out of a whole tensor."""
    return part(full, box(layout, tuple(full.shape), mesh)).clone()


def part(x: torch.Tensor, inner: Box, outer: Box | None = None) -> torch.Tensor:
    """Return a view of the box `inner` of a tensor that holds the box `outer`; by default all from index 0."""
    begins = [0] * len(inner) if outer is None else [start for start, _ in outer]
    return x[tuple(slice(p - begin, q - begin) for (p, q), begin in zip(inner, begins, strict=True))]


def meet(a: Box, b: Box) -> Box | None:
    """Return what two boxes have in common; None if that is empty."""
    ranges = tuple((max(p, r), min(q, s)) for (p, q), (r, s) in zip(a, b, strict=True))
    return ranges if all(start < stop for start, stop in ranges) else None
