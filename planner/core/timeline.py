"""When every action of a pipeline runs: what the simulation of a schedule answers.

Times are seconds from the start of the step, memory is bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from .schedule import Action, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimes:
    """What one stage costs for one microbatch, and once a step.

    Parameters
    ----------
    forward, backward_input, backward_weight
        Seconds of a pass; a full backward takes the sum of the last two.
    recompute
        Seconds that the first backward pass spends on repeating the forward; not contained in the others.
    send_forward, send_backward
        Seconds that the result takes to the rank of the next stage, and the gradient to the rank of the one before.
        They count only where that is another rank.
    reduce
        Seconds of the gradient reduction of the stage's parameters, once a step, beside the compute.
    optimizer
        Seconds of the update of its parameters, once a step, after all reductions on its rank.
    activation
        Bytes that a microbatch keeps from its forward to the end of its backward.
    weight_gradient
        Bytes of these that are kept between the two halves of a split backward.
    resident
        Bytes that the stage holds all the time: parameters, gradients, optimizer state.
    """

    forward: float
    backward_input: float
    backward_weight: float
    recompute: float = 0.0
    send_forward: float = 0.0
    send_backward: float = 0.0
    reduce: float = 0.0
    optimizer: float = 0.0
    activation: float = 0.0
    weight_gradient: float = 0.0
    resident: float = 0.0

    @property
    def work(self) -> float:
        """Seconds of useful compute of one microbatch."""
        return self.forward + self.backward_input + self.backward_weight


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One stretch of time on a stream of a rank.

    Parameters
    ----------
    stream
        `compute`, `forward` and `backward` (messages, at the sender), or `reduce`.
    actions
        What runs: one action, or the two of an overlapped pair; for a message, the action that made it; empty for the
        reduction (`stage` says whose) and the optimizer.
    """

    rank: int
    stream: str
    actions: tuple[Action, ...]
    start: float
    stop: float
    stage: int = -1

    @property
    def label(self) -> str:
        """What is written on it."""
        return "+".join(map(str, self.actions)) or (f"reduce {self.stage}" if self.stage >= 0 else "optimizer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A simulated step.

    Parameters
    ----------
    spans
        Per rank, the spans of all its streams, each stream in order.
    memory
        Per rank, points (time, bytes held from then on).
    """

    schedule: Schedule
    times: tuple[StageTimes, ...]
    spans: tuple[tuple[Span, ...], ...]
    memory: tuple[tuple[tuple[float, float], ...], ...]

    @property
    def makespan(self) -> float:
        """Seconds from the start to the end of the last span."""
        return max((span.stop for spans in self.spans for span in spans), default=0.0)

    def compute(self, rank: int) -> tuple[Span, ...]:
        """Return the passes of a rank, in order."""
        return tuple(s for s in self.spans[rank] if s.stream == "compute" and s.actions)

    def peak_memory(self, rank: int) -> float:
        """Return the most bytes that a rank holds at any time."""
        return max(held for _, held in self.memory[rank])

    def in_flight(self, rank: int) -> int:
        """Return the most microbatch activations that a rank keeps at once, over its stages."""
        held = most = 0
        for span in self.compute(rank):
            for action in span.actions:
                held += action.kind == "F"
                most = max(most, held)
                held -= action.kind in "BW"
        return most
