"""Permute: every rank passes its whole shard on to one rank, and gets the whole shard of one.

It leads between layouts that cut a tensor into the same boxes, with as many owners as readers: `[a·b]` and `[b·a]`, or
`[a, b]` and `[b, a]` with axes of one size. What a rank receives is a message from one sender, so it waits for one
only; an exchange between the same layouts would fetch a box with several owners in pieces.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..core.collective import Step
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..errors import LayoutError
from . import checks
from .boxes import edges
from .definition import Call, CollectiveDef, World, moved_group, nothing
from .messages import senders


def permutes(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> bool:
    """Return whether both layouts cut a tensor of global `shape` into the same boxes, held as often."""
    if mesh.size_of(source.sharded) != mesh.size_of(target.sharded):
        return False
    cuts = zip(shape, source.dims, target.dims, strict=True)
    return all(np.array_equal(edges(size, a, mesh), edges(size, b, mesh)) for size, a, b in cuts)


def _apply(layout: Layout, mesh: DeviceMesh, call: Call) -> Layout:
    target = checks.moved("permute", layout, mesh, call.target)
    if not permutes(layout, target, call.shape, mesh):
        raise LayoutError(
            "collective.not-a-permutation",
            f"permute from {layout} to {target} on a tensor of shape {call.shape}: they cut it into other boxes, or "
            "hold them on another number of ranks.",
            "Use an exchange.",
        )
    return target


def _moved(step: Step, mesh: DeviceMesh) -> int:
    # Ranks that differ along other axes only do the same: a stage or a replica of a large mesh stands for all.
    used = step.source.used | step.target.used
    few = DeviceMesh(tuple((axis, size) for axis, size in mesh.axes if axis in used))
    found = senders(step.source, step.target, step.shape, few)
    passing = (rank for rank, sender in enumerate(found) if sender != rank)
    return max((prod(step.target.shape_of(step.shape, few, rank)) for rank in passing), default=0)


def _rounds(step: Step, mesh: DeviceMesh) -> int:
    return int(_moved(step, mesh) > 0)


def _run(step: Step, world: World, mesh: DeviceMesh) -> World:
    found = senders(step.source, step.target, step.shape, mesh)
    out = []
    for rank, sender in enumerate(found):
        shape = step.target.shape_of(step.shape, mesh, rank)
        out.append(world[sender] if 0 not in shape else np.zeros(shape, world[rank].dtype))
    return out


PERMUTE = CollectiveDef(
    name="permute",
    summary="Every rank passes its whole shard on to one rank and gets the whole shard of one.",
    local=False,
    dual="permute",
    apply=_apply,
    group=moved_group,
    received=_moved,
    sent=_moved,
    rounds=_rounds,
    staging=nothing,
    run=_run,
)
