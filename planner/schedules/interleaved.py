"""Schedules that deal several parts of the model out to each rank in turn.

Microbatches go in *rounds* of about as many as there are ranks; within a round, a rank passes all of them through its
first part, then through its second, and so on; backward takes the parts in reverse. An order is these two
sequences, forward ahead of backward by the warm-up.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..core.schedule import Action
from .definition import Order, Pipeline, ScheduleDef, cells


def _round(pipeline: Pipeline) -> int:
    """Return the microbatches of a round."""
    return pipeline.microbatches // max(1, pipeline.microbatches // pipeline.ranks)


def _in_whole_rounds(pipeline: Pipeline) -> bool:
    return pipeline.microbatches % _round(pipeline) == 0


def _visits(pipeline: Pipeline, rank: int, kind: str) -> list[Action]:
    size = _round(pipeline)
    parts = [part * pipeline.ranks + rank for part in range(pipeline.per_rank)]
    return [
        Action(part, kind, m)
        for start in range(0, pipeline.microbatches, size)
        for part in (parts if kind == "F" else reversed(parts))
        for m in range(start, start + size)
    ]


def _warm_up(pipeline: Pipeline, rank: int, hops: int) -> int:
    """Return how many forwards come before the first backward; `hops` more for each rank further from the last."""
    ahead = (pipeline.per_rank - 1) * _round(pipeline) + hops * (pipeline.ranks - 1 - rank)
    return min(ahead, pipeline.microbatches * pipeline.per_rank)


def _interleaved(pipeline: Pipeline, rank: int) -> Order:
    forward, backward = _visits(pipeline, rank, "F"), _visits(pipeline, rank, "B")
    ahead = _warm_up(pipeline, rank, 2)
    return cells([*forward[:ahead], *_turns(forward[ahead:], backward)])


def _breadth_first(pipeline: Pipeline, rank: int) -> Order:
    parts = [part * pipeline.ranks + rank for part in range(pipeline.per_rank)]
    micros = range(pipeline.microbatches)
    yield from cells(Action(part, "F", m) for part in parts for m in micros)
    yield from cells(Action(part, "B", m) for part in reversed(parts) for m in reversed(micros))


def _zero_bubble(pipeline: Pipeline, rank: int) -> Order:
    """Half the warm-up, since only the gradients of inputs travel; rank s leaves s weight gradients for later."""
    forward, inputs = _visits(pipeline, rank, "F"), _visits(pipeline, rank, "I")
    weights = [Action(a.stage, "W", a.microbatch) for a in inputs]
    ahead = _warm_up(pipeline, rank, 1)
    done = 0
    for action in [*forward[:ahead], *_turns(forward[ahead:], inputs)]:
        yield (action,)
        if action.kind == "I":
            done += 1
            if done > rank:
                yield (weights[done - rank - 1],)
    yield from cells(weights[max(0, done - rank) :])


def _turns(left: list[Action], right: list[Action]) -> Iterator[Action]:
    for i, action in enumerate(right):
        yield from left[i : i + 1]
        yield action


_ROUNDS = "microbatches in equal rounds: a multiple of (microbatches // ranks), such as any multiple of the ranks"

INTERLEAVED = ScheduleDef(
    name="interleaved-1f1b",
    summary="1F1B over several parts a rank: bubble divided by their number, more messages",
    source="Narayanan et al., arXiv 2104.04473",
    torch="ScheduleInterleaved1F1B",
    aliases=("interleaved",),
    per_rank=0,
    legal=_in_whole_rounds,
    needs=_ROUNDS,
    order=_interleaved,
)
LOOPED_BREADTH_FIRST = ScheduleDef(
    name="looped-bfs",
    summary="every microbatch through one part before the next part: few gradient reductions, most activations",
    source="Lamy-Poirier, Breadth-First Pipeline Parallelism, arXiv 2211.05953",
    torch="ScheduleLoopedBFS",
    aliases=("breadth-first",),
    per_rank=0,
    order=_breadth_first,
)
INTERLEAVED_ZERO_BUBBLE = ScheduleDef(
    name="interleaved-zero-bubble",
    summary="interleaved 1F1B with weight gradients put off into the bubble",
    source="Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241",
    torch="ScheduleInterleavedZeroBubble",
    per_rank=0,
    legal=_in_whole_rounds,
    needs=_ROUNDS,
    order=_zero_bubble,
)
