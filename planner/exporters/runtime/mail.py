"""Messages between the stages of a pipeline: values that go forward and gradients that come back.

For each pair of ranks there is a group of its own for each direction, so what goes one way never waits for what
goes the other way. A sender never waits. A receiver knows the sender's table, and asks for messages in the order in
which they are sent, some time before it needs them.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist

from .actions import Action, read_row
from .layout import local_shape
from .mesh import Line, Mesh
from .stages import Pipeline, Wire
from .steps import logged


@dataclass(frozen=True)
class Message:
    """What passes a wire (a position in the table of wires) for a microbatch: a value, or `back` its gradient."""

    wire: int
    back: bool
    microbatch: int


def reads(pipeline: Pipeline, action: Action) -> Iterator[Message]:
    """Yield the messages that an action needs."""
    return _messages(pipeline, action, needed=True)


def writes(pipeline: Pipeline, action: Action) -> Iterator[Message]:
    """Yield the messages that an action makes."""
    return _messages(pipeline, action, needed=False)


def _messages(pipeline: Pipeline, action: Action, *, needed: bool) -> Iterator[Message]:
    """Yield what arrives or leaves: values go from a wire's source to its target, gradients the other way."""
    if action.kind == "W":
        return
    part, back = pipeline.part(action.stage), action.kind != "F"
    for index, wire in enumerate(pipeline.wires):
        here = wire.source if needed == back else wire.target
        if here == part and (wire.gradient or not back):
            yield Message(index, back, action.microbatch)


def ends(pipeline: Pipeline, message: Message) -> tuple[int, int]:
    """Return the coordinates along the axis from which and to which a message goes."""
    wire = pipeline.wires[message.wire]
    parts = (wire.target, wire.source) if message.back else (wire.source, wire.target)
    sender, reader = (pipeline.placement[pipeline.stage(part, message.microbatch)] for part in parts)
    return sender, reader


def sent(pipeline: Pipeline) -> dict[tuple[int, int], list[Message]]:
    """Return all messages between different ranks, by sender and receiver, in the order in which they are sent."""
    channels: dict[tuple[int, int], list[Message]] = defaultdict(list)
    for row in pipeline.rows:
        for action in (action for cell in read_row(row) for action in cell):
            for message in writes(pipeline, action):
                sender, reader = ends(pipeline, message)
                if sender != reader:
                    channels[sender, reader].append(message)
    return dict(channels)


def lines(pipeline: Pipeline) -> list[Line]:
    """Return the pairs of coordinates, sender first, for which there must be groups."""
    return [(pipeline.axis, pair) for pair in sorted(sent(pipeline))]


def dtype_of(wire: Wire, mesh: Mesh) -> torch.dtype:
    """Return the element type of what passes a wire."""
    if wire.dtype == "compute":
        return mesh.compute
    dtype: torch.dtype = getattr(torch, wire.dtype)
    return mesh.compute if dtype.is_floating_point and mesh.compute == torch.float64 else dtype


class Mail:
    """What a rank sends and receives in a step."""

    def __init__(self, pipeline: Pipeline, mesh: Mesh) -> None:
        self.pipeline, self.mesh = pipeline, mesh
        self.place = mesh.coordinate(pipeline.axis)
        self.ranks = mesh.ranks((pipeline.axis,))
        self.order = {sender: found for (sender, reader), found in sent(pipeline).items() if reader == self.place}
        self.begin()

    def begin(self) -> None:
        """Start a step."""
        self._awaited = {sender: deque(found) for sender, found in self.order.items()}
        self._asked: dict[Message, tuple[dist.Work, torch.Tensor]] = {}
        self._here: dict[Message, torch.Tensor] = {}
        self._sending: list[tuple[dist.Work, torch.Tensor]] = []

    def ask(self, messages: Iterable[Message]) -> None:
        """Make ready to receive messages, and those that come before them from the same ranks."""
        for message in messages:
            sender, _ = ends(self.pipeline, message)
            while sender != self.place and message not in self._asked and message in self._awaited.get(sender, ()):
                self._receive(sender, self._awaited[sender].popleft())

    def take(self, message: Message) -> torch.Tensor:
        """Return what has come; waits for it."""
        if message in self._here:
            return self._here.pop(message)
        self.ask([message])
        work, x = self._asked.pop(message)
        work.wait()
        return x

    def give(self, message: Message, x: torch.Tensor | None) -> None:
        """Send a message, or keep it here if this rank runs its reader, too; None is a gradient of zeros."""
        wire = self.pipeline.wires[message.wire]
        shape, dtype = local_shape(wire.layout, wire.shape, self.mesh), dtype_of(wire, self.mesh)
        x = torch.zeros(shape, dtype=dtype, device=self.mesh.device) if x is None else x
        if tuple(x.shape) != shape or x.dtype != dtype:
            raise RuntimeError(
                f"{wire.value} goes from stage {wire.source} to stage {wire.target} as {dtype} of shape {shape}, but "
                f"{'its gradient' if message.back else 'it'} is {x.dtype} of shape {tuple(x.shape)}"
            )
        x = x.detach()
        _, reader = ends(self.pipeline, message)
        if reader == self.place:
            self._here[message] = x
            return
        x = x.contiguous()
        self._sending.append((self._started(dist.isend, x, reader, (self.place, reader)), x))
        logged(self.mesh, "send_recv", (self.pipeline.axis,), x, x)

    def sweep(self) -> None:
        """Let go of what has been sent."""
        self._sending = [(work, x) for work, x in self._sending if not work.is_completed()]

    def end(self) -> None:
        """Wait for what is still under way."""
        for work, _ in self._sending:
            work.wait()
        left = [*self._here, *self._asked, *(message for found in self._awaited.values() for message in found)]
        if left:
            raise RuntimeError(f"the table has no action that takes {left[0]}: is a rank's row cut off?")
        self._sending = []

    def _receive(self, sender: int, message: Message) -> None:
        wire = self.pipeline.wires[message.wire]
        shape = local_shape(wire.layout, wire.shape, self.mesh)
        x = torch.empty(shape, dtype=dtype_of(wire, self.mesh), device=self.mesh.device)
        self._asked[message] = self._started(dist.irecv, x, sender, (sender, self.place)), x

    def _started(self, way: Callable[..., object], x: torch.Tensor, other: int, pair: tuple[int, int]) -> dist.Work:
        group = self.mesh.line(self.pipeline.axis, pair)
        (work,) = dist.batch_isend_irecv([dist.P2POp(way, x, self.ranks[other], group)])
        return work
