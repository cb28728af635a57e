"""The shape of an entry in the table `COLLECTIVES`.

A collective is a *checked function* layout → layout, with what it moves and its meaning on ranks:

```text
apply(layout, call)        → the layout after it, or an error with code `collective.*`
step(layout, shape, mesh)  → the same as a `Step` with local shapes
received, sent, rounds     → what the busiest rank moves, in elements and in messages
staging                    → elements that it packs or receives into, beside input and output
run(step, world, mesh)     → the arrays that the ranks hold after it
```

`run` takes nothing from `apply`: tests hold one against the other. Sizes need not divide, and parts may be empty; what
is moved is exact. Where both layouts are even, what a step moves depends on its kind, axes and local sizes alone,
except for an exchange and a permute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy.typing as npt

from ..core.collective import Step, further
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from .boxes import moved_axes
from .checks import axes_of

World = list[npt.NDArray[Any]]
"""The local array of every rank, by rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The arguments of a collective; each family takes those that it needs.

    Parameters
    ----------
    shape
        Global shape of the tensor.
    axes
        Mesh axes of its group, the first one major.
    dim, to_dim
        Tensor dims as in `Step`; -1 if it has none or several.
    target
        The layout that it leads to, for an exchange, a permute, and a step on several dims; for the others it follows.
    """

    shape: tuple[int, ...]
    axes: Axes = ()
    dim: int = -1
    to_dim: int = -1
    target: Layout | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveDef:
    """One family of collectives.

    Parameters
    ----------
    local
        True if no rank receives anything.
    dual
        Key of the transposed collective (of the linear map over all ranks), for explanation and
        tests; it never chooses a backward.
    apply
        Layout, mesh and arguments → the layout after it.
    group
        Layout, mesh and arguments → the mesh axes of its group.
    received, sent
        Elements that the busiest rank receives and sends.
    rounds
        Messages that the busiest rank waits for one after the other.
    staging
        Elements of the buffers that the busiest rank packs into and receives into, beside its input and output.
    run
        Step, the array of every rank, mesh → the array of every rank after it.
    """

    name: str
    summary: str
    local: bool
    dual: str
    apply: Callable[[Layout, DeviceMesh, Call], Layout]
    group: Callable[[Layout, DeviceMesh, Call], Axes]
    received: Callable[[Step, DeviceMesh], float]
    sent: Callable[[Step, DeviceMesh], float]
    rounds: Callable[[Step, DeviceMesh], int]
    staging: Callable[[Step, DeviceMesh], int]
    run: Callable[[Step, World, DeviceMesh], World]

    def step(
        self,
        layout: Layout,
        shape: tuple[int, ...],
        mesh: DeviceMesh,
        *,
        axes: Axes = (),
        dim: int = -1,
        to_dim: int = -1,
        target: Layout | None = None,
    ) -> Step:
        """Return this collective on a tensor of global `shape` that lies as `layout`.

        Raises
        ------
        LayoutError
            `collective.*` where it is not applicable, `layout.rank-mismatch`.
        """
        call = Call(shape=shape, axes=axes, dim=dim, to_dim=to_dim, target=target)
        after = self.apply(layout, mesh, call)
        group = self.group(layout, mesh, call)
        return Step(
            kind=self.name,
            axes=group,
            dim=dim,
            to_dim=to_dim,
            source=layout,
            target=after,
            shape=shape,
            source_shape=layout.local_shape(shape, mesh),
            target_shape=after.local_shape(shape, mesh),
            group_size=mesh.size_of(group),
        )

    def follow(self, layout: Layout, step: Step, mesh: DeviceMesh) -> Layout:
        """Return the layout after `step` on `layout`, by `apply`: folding it checks a sequence."""
        call = Call(shape=step.shape, axes=step.axes, dim=step.dim, to_dim=step.to_dim, target=step.target)
        return self.apply(layout, mesh, call)

    def received_bytes(self, step: Step, mesh: DeviceMesh, itemsize: int) -> float:
        """Return the bytes that the busiest rank receives, of a tensor whose elements have `itemsize` bytes."""
        return self.received(step, mesh) * step.itemsize(itemsize)

    def sent_bytes(self, step: Step, mesh: DeviceMesh, itemsize: int) -> float:
        """Return the bytes that the busiest rank sends."""
        return self.sent(step, mesh) * step.itemsize(itemsize)


def named_axes(layout: Layout, mesh: DeviceMesh, call: Call) -> Axes:
    """Return the axes that the call names: the group of every collective on one dim."""
    return call.axes


def taken_axes(layout: Layout, mesh: DeviceMesh, call: Call) -> Axes:
    """Return the axes that the call names, or those that dims lose on the way to its target."""
    if call.target is None or call.dim >= 0:
        return call.axes
    return axes_of(further(call.target, layout))


def moved_group(layout: Layout, mesh: DeviceMesh, call: Call) -> Axes:
    """Return the axes along which data moves on the way to the target of the call."""
    return moved_axes(layout, call.target or layout, call.shape, mesh)


def groups(mesh: DeviceMesh, axes: Axes) -> tuple[tuple[int, ...], ...]:
    """Return every group of ranks that differ along `axes` only, each with the first axis major."""
    return _groups(mesh, axes)


def even(step: Step, mesh: DeviceMesh) -> bool:
    """Return whether all ranks hold parts of one shape, before and after the step."""
    return step.source.even(step.shape, mesh) and step.target.even(step.shape, mesh)


def nothing(step: Step, mesh: DeviceMesh) -> int:
    """Return 0: what a local step moves, and what it stages."""
    return 0


@lru_cache(maxsize=1 << 10)
def _groups(mesh: DeviceMesh, axes: Axes) -> tuple[tuple[int, ...], ...]:
    return tuple(mesh.group(axes, rank) for rank in range(mesh.device_count) if mesh.index(rank, axes) == 0)
