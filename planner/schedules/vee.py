"""Schedules on a V: rank r holds part r and part 2p - 1 - r, so first and last part lie together."""

from __future__ import annotations

from ..core.schedule import vee
from .definition import Order, Pipeline, ScheduleDef, Tape


def _zero_bubble_v(pipeline: Pipeline, rank: int) -> Order:
    """Write the phases for at least 2p - 1 microbatches, then leave out those that do not exist."""
    down, up = rank, 2 * pipeline.ranks - 1 - rank
    left = pipeline.ranks - rank
    micros = max(2 * pipeline.ranks - 1, pipeline.microbatches)
    tape = Tape()
    tape.run((down, "F"), times=2 * left - 1)
    tape.run((up, "F"), (down, "F"), times=rank)
    for _ in range(left):
        tape.run((up, "F"), (up, "I"))
        tape.weights()
    started, returned = 2 * left - 1 + rank, pipeline.ranks
    while returned < started or started < micros:
        if started < micros:
            tape.run((down, "F"))
            started += 1
        tape.run((down, "I"))
        tape.weights()
        tape.run((up, "F"), (up, "I"))
        tape.weights()
        returned += 1
    tape.run((down, "I"), (up, "I"), times=rank)
    for _ in range(left):
        tape.run((down, "I"))
        tape.weights(stage=down)
    tape.weights(micros, stage=up)
    tape.weights(micros, stage=down)
    return [cell for cell in tape.cells if cell[0].microbatch < pipeline.microbatches]


ZB_V = ScheduleDef(
    name="zb-v",
    summary="no bubble where F = I = W, at 1F1B's memory, on a V of two parts a rank",
    source="Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241",
    torch="ScheduleZBVZeroBubble",
    per_rank=2,
    placement=vee,
    order=_zero_bubble_v,
)
