"""Two streams of microbatches that meet, so that one's forward runs together with the other's backward.

A rank passes through eight phases, whose lengths follow from its distance `near` from the end of the pipeline (0 …
`half` - 1, where the streams meet). Its first stage belongs to the stream that reaches it first, its second to the
other.

- DualPipe: both streams run over p ranks in opposite directions; rank r holds part r and part p - 1 - r, so every
  part lies on two ranks.
- DualPipeV: the same cut in the middle and folded: one stream down a V and up again.
"""

from __future__ import annotations

from ..core.schedule import Chain, vee
from .definition import Order, Pipeline, ScheduleDef, Tape


def _order(first: int, second: int, near: int, half: int, micros: int, starts: dict[int, int]) -> Order:
    """Return a rank's cells.

    Parameters
    ----------
    first, second
        Its two stages.
    near, half
        Its distance from the end of the pipeline, and how many ranks there are from the end to the middle.
    micros
        Microbatches of one stream.
    starts
        First microbatch of the stages whose stream does not begin at 0.
    """
    tape = Tape(first=starts)
    outer = half - near - 1
    tape.run((first, "F"), times=2 * outer)
    tape.run((first, "F"), (second, "F"), times=near + 1)
    for _ in range(outer):
        tape.run((second, "I"))
        tape.weights()
        tape.run((second, "F"))
    for i in range(micros - 2 * half + near + 1):
        # The rank where the streams meet has nothing to hide its first backward behind.
        if i == 0 and outer == 0:
            tape.run((first, "F"), (second, "B"))
        else:
            tape.together(first, second)
        tape.together(second, first)
    for _ in range(outer):
        tape.run((second, "B"))
        tape.together(second, first)
    # The second half of the returning backwards leaves its weight gradients for the end.
    whole = near + 1
    for i in range(2 * (near + 1)):
        kind = "B" if i < whole else "I"
        tape.run(((second, first)[i % 2], kind))
    for _ in range(outer):
        tape.weights()
        tape.run((first, "I"))
    tape.weights(tape.waiting)
    return tape.cells


def _folded(pipeline: Pipeline, rank: int) -> Order:
    return _order(rank, 2 * pipeline.ranks - 1 - rank, rank, pipeline.ranks, pipeline.microbatches, {})


def _two_ways(pipeline: Pipeline, rank: int) -> Order:
    ranks, micros = pipeline.ranks, pipeline.microbatches // 2
    mirror = ranks - 1 - rank
    there, back = rank, ranks + mirror
    starts = {stage: micros for stage in range(ranks, 2 * ranks)}
    if rank < ranks // 2:
        return _order(there, back, rank, ranks // 2, micros, starts)
    return _order(back, there, mirror, ranks // 2, micros, starts)


def _two_chains(pipeline: Pipeline) -> tuple[Chain, ...]:
    ranks, micros = pipeline.ranks, pipeline.microbatches // 2
    return (
        Chain(stages=tuple(range(ranks)), microbatches=tuple(range(micros))),
        Chain(stages=tuple(range(ranks, 2 * ranks)), microbatches=tuple(range(micros, 2 * micros))),
    )


def _there_and_back(ranks: int, stages: int) -> tuple[int, ...]:
    return (*range(ranks), *reversed(range(stages - ranks)))


DUALPIPE = ScheduleDef(
    name="dualpipe",
    summary="two streams in opposite directions, forward of one under backward of the other; parameters lie twice",
    source="DeepSeek-V3, arXiv 2412.19437",
    per_rank=2,
    legal=lambda p: p.ranks % 2 == 0 and p.microbatches % 2 == 0 and p.microbatches >= 2 * p.ranks,
    needs="an even number of ranks, and an even number of microbatches, at least twice the ranks",
    placement=_there_and_back,
    order=_two_ways,
    chains=_two_chains,
)
DUALPIPE_V = ScheduleDef(
    name="dualpipe-v",
    summary="DualPipe folded at the middle: one stream on a V, no part lies twice",
    source="Sea AI Lab, cut-in-half DualPipe, 2025; DeepSeek-V3, arXiv 2412.19437",
    torch="ScheduleDualPipeV",
    per_rank=2,
    legal=lambda p: p.microbatches >= 2 * p.ranks,
    needs="at least as many microbatches as parts",
    placement=vee,
    order=_folded,
)
