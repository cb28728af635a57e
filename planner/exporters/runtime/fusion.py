"""Reduce the gradients of several parameters together: raw gradients wait in buckets, a full one is reduced as one.

A bucket is full when each of its parameters has handed in a gradient; backward makes gradients in the same order on
every rank, so all ranks launch the same collectives in the same order. With overlap a collective runs while backward
goes on, and its result is taken at the end of the step, or when the same bucket is full again. Where one collective
follows another (compression, or several axes), the next is launched when the next bucket is full.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from .gradients import Gradient, Memory, Step, Steps, own_gradients
from .mesh import Axes, Mesh
from .steps import AllReduce, ReduceScatter, logged, scatter_sum

Result = TypeVar("Result")
Launched = Generator[tuple[dist.Work, bool], None, Result]
"""Yields each collective that it launches, and whether one follows that needs its result; it is resumed when that is
done, and returns what comes of all."""


class Compression(Protocol):
    """How a bucket is passed; `compression` has those there are, and `Plain` passes it as it is."""

    def all_reduce(self, x: torch.Tensor, axes: Axes, mesh: Mesh, memory: Memory) -> Launched[torch.Tensor]:
        """Return the sum over the group, of a flat tensor that may be changed."""

    def reduce_scatter(self, parts: torch.Tensor, axes: Axes, mesh: Mesh, memory: Memory) -> Launched[torch.Tensor]:
        """Return this rank's part of the sum; `parts` has a row for each rank of the group, by its place."""


class Plain:
    """Pass gradients as they are."""

    def all_reduce(self, x: torch.Tensor, axes: Axes, mesh: Mesh, memory: Memory) -> Launched[torch.Tensor]:
        """Return the sum over the group."""
        return (yield from summed(x, axes, mesh))

    def reduce_scatter(self, parts: torch.Tensor, axes: Axes, mesh: Mesh, memory: Memory) -> Launched[torch.Tensor]:
        """Return this rank's part of the sum."""
        return (yield from part_of_sum(parts, axes, mesh))


def summed(x: torch.Tensor, axes: Axes, mesh: Mesh) -> Launched[torch.Tensor]:
    """Add up a tensor over the group, in its place."""
    yield dist.all_reduce(x, group=mesh.group(axes), async_op=True), False
    return logged(mesh, "all_reduce", axes, x, x)


def part_of_sum(parts: torch.Tensor, axes: Axes, mesh: Mesh) -> Launched[torch.Tensor]:
    """Add up this rank's row of `parts` over the group."""
    out, work = scatter_sum(parts, mesh.group(axes))
    yield work, False
    return logged(mesh, "reduce_scatter", axes, parts, out)


@dataclass(frozen=True)
class Bucket:
    """Parameters whose gradients are reduced together.

    Parameters
    ----------
    parameters
        Full names; a token such as `0-31`, or `1-31+2`, stands for each of these layers.
    together
        Layers that share a bucket, the last ones first; 0 if all do.
    way
        Which of a parameter's raw gradients, where it has several that come back by other steps.
    """

    parameters: tuple[str, ...]
    together: int = 0
    way: int = 0

    def cut(self) -> Iterator[tuple[str, ...]]:
        """Yield the names of each bucket that this stands for."""
        layers = [list(_layers(name)) for name in self.parameters]
        if not self.together:
            yield tuple(name for names in layers for name in reversed(names))
            return
        for stop in range(len(layers[0]), 0, -self.together):
            yield tuple(name for names in layers for name in reversed(names[max(0, stop - self.together) : stop]))


@dataclass(frozen=True)
class Fusion:
    """How the gradients of a model are reduced.

    Parameters
    ----------
    buckets
        In the order in which backward fills them.
    overlap
        Whether backward goes on while a bucket is reduced.
    compression
        What buckets are passed as.
    """

    buckets: tuple[Bucket, ...]
    overlap: bool = False
    compression: Compression = field(default_factory=Plain)

    def open(self, model: nn.Module, mesh: Mesh) -> None:
        """Give the gradients of a model their buckets, unless they have them.

        Raises
        ------
        ValueError
            If the model has some of a bucket's parameters, and not all.
        """
        own = own_gradients(model)
        if any(gradient.buckets for gradient in own.values()):
            return
        queue = Queue(overlap=self.overlap)
        for bucket in self.buckets:
            for names in bucket.cut():
                there = [name for name in names if name in own]
                # A stage of a pipeline has only its own.
                if there and len(there) < len(names):
                    raise ValueError(f"a bucket has parameters that the model lacks: {sorted({*names} - {*there})}")
                if there:
                    opened = OpenBucket(there, [own[name] for name in there], queue, self.compression, mesh)
                    for name in there:
                        own[name].buckets[bucket.way] = opened

    def uncompressed(self) -> Fusion:
        """Return the same buckets, passed as they are."""
        return replace(self, compression=Plain())


class OpenBucket:
    """One bucket at run time: raw gradients that have come, and what a compression keeps."""

    def __init__(
        self, names: list[str], gradients: list[Gradient], queue: Queue, compression: Compression, mesh: Mesh
    ) -> None:
        self.names, self.gradients, self.queue = names, gradients, queue
        self.compression, self.mesh = compression, mesh
        self.memory: dict[str, Memory] = {}
        self._held: dict[Gradient, list[tuple[Steps, torch.Tensor]]] = {gradient: [] for gradient in gradients}

    @property
    def passed_as(self) -> str:
        """The name of the compression."""
        return type(self.compression).__name__

    def take(self, gradient: Gradient, steps: Steps, raw: torch.Tensor) -> None:
        """Take a raw gradient, and launch the bucket if it is the last one."""
        self._held[gradient].append((steps, raw))
        # Two microbatches may be under way at once; whose gradients meet does not matter to their sum.
        if all(self._held.values()):
            held = [self._held[each].pop(0) for each in self.gradients]
            self.queue.launch(self, self._reduce([list(steps) for steps, _ in held], [raw for _, raw in held]))

    def finish(self) -> None:
        """Wait for all that was launched.

        Raises
        ------
        RuntimeError
            If gradients came that wait for others.
        """
        if any(self._held.values()):
            missing = [name for name, each in zip(self.names, self.gradients, strict=True) if not self._held[each]]
            raise RuntimeError(f"the loss gives no gradient to {missing}, and others of their bucket wait for it")
        self.queue.drain()

    def _reduce(self, steps: list[list[Step]], values: list[torch.Tensor]) -> Launched[None]:
        """Do the members' steps: what is local each by itself, what communicates together."""
        done: set[str] = set()
        for turn in count():
            for position, left in enumerate(steps):
                while left and not isinstance(left[0], AllReduce | ReduceScatter):
                    values[position] = left.pop(0)(values[position], self.mesh)
            if not any(steps):
                break
            heads = [left.pop(0) for left in steps]
            more = any(isinstance(step, AllReduce | ReduceScatter) for left in steps for step in left)
            # A checkpoint may bring what was kept of a reduction that is another now.
            done.add(name := f"{turn} {heads[0]} of {sum(value.numel() for value in values)}")
            values = yield from _followed(self._together(heads, values, self.memory.setdefault(name, {})), more)
        self._forget(self.memory.keys() - done)
        for gradient, value in zip(self.gradients, values, strict=True):
            gradient.finished(value)

    def _forget(self, others: set[str]) -> None:
        """Drop what was kept of reductions that are none of these."""
        for name in sorted(others):
            if self.memory.pop(name) and self.mesh.rank == 0:
                print(f"what compression had not sent of {self.names[0]} and others was kept of {name}; it is left out")

    def _together(self, heads: list[Step], values: list[torch.Tensor], memory: Memory) -> Launched[list[torch.Tensor]]:
        """Do one step of every member as one, and return what each has then."""
        if isinstance(head := heads[0], AllReduce):
            packed = torch.cat([value.flatten() for value in values])
            total = yield from self.compression.all_reduce(packed, head.axes, self.mesh, memory)
            shapes = [value.shape for value in values]
        else:
            scatters = [
                (step, value) for step, value in zip(heads, values, strict=True) if isinstance(step, ReduceScatter)
            ]
            parts = [step.parts(value, self.mesh) for step, value in scatters]
            flat = [part.flatten(1) for part in parts]
            # What is scattered is only read, so that one member needs no place of its own.
            packed = torch.cat(flat, dim=1) if len(flat) > 1 else flat[0]
            total = yield from self.compression.reduce_scatter(packed, scatters[0][0].group, self.mesh, memory)
            shapes = [part.shape[1:] for part in parts]
        pieces = total.split([shape.numel() for shape in shapes])
        return [piece.view(shape) for piece, shape in zip(pieces, shapes, strict=True)]


class Queue:
    """The buckets of a model that are being reduced, in the order in which they were launched."""

    def __init__(self, *, overlap: bool) -> None:
        self.overlap = overlap
        self._running: list[_Running] = []

    def launch(self, bucket: OpenBucket, work: Launched[None]) -> None:
        """Start reducing a bucket; without overlap, or where it is still being reduced, wait."""
        if any(running.bucket is bucket for running in self._running):
            self.drain()
        # What comes next of those before can't be seen to by anyone else until the next bucket is full.
        self._running = [running for running in self._running if not running.more or running.resume()]
        self._running.append(_Running(bucket, work))
        if not self.overlap:
            self.drain()

    def drain(self) -> None:
        """Wait until everything is reduced."""
        while self._running:
            self._running = [running for running in self._running if running.resume()]


class _Running:
    """A bucket that is being reduced."""

    def __init__(self, bucket: OpenBucket, work: Launched[None]) -> None:
        self.bucket, self._work = bucket, work
        self._done, self.more = next(work)

    def resume(self) -> bool:
        """Wait for what was launched, and launch what follows; whether anything does."""
        self._done.wait()
        try:
            self._done, self.more = next(self._work)
        except StopIteration:
            return False
        return True


def _followed(work: Launched[Result], more: bool) -> Launched[Result]:
    """Return the same work, of which more follows."""
    while True:
        try:
            done, further = next(work)
        except StopIteration as end:
            result: Result = end.value
            return result
        yield done, further or more


def _layers(name: str) -> Iterator[str]:
    """Yield the names that one stands for."""
    match = re.search(r"(?<![^.])(\d+)-(\d+)(?:\+(\d+))?(?![^.])", name)
    if match is None:
        yield name
        return
    for index in range(int(match[1]), int(match[2]) + 1, int(match[3] or 1)):
        yield f"{name[: match.start()]}{index}{name[match.end() :]}"
