"""Zero-bubble schedules of one part a rank: weight gradients fill what would be bubble.

Rank s of p starts with some forwards and keeps some weight gradients back, so that the ranks end one after the other
as they began:

- H1: p - s forwards, s weight gradients; together p microbatches on every rank, as 1F1B has on its first.
- H2: 2(p - s) - 1 forwards, 2s weight gradients; no bubble between a rank's first and last action where F = I = W,
  for 2p - 1 microbatches.
"""

from __future__ import annotations

from .definition import Order, Pipeline, ScheduleDef, Tape


def _order(pipeline: Pipeline, rank: int, ahead: int, behind: int) -> Order:
    tape = Tape()
    ahead = min(ahead, pipeline.microbatches)
    tape.run((rank, "F"), times=ahead)
    for m in range(pipeline.microbatches):
        tape.run((rank, "I"))
        if tape.waiting > behind:
            tape.weights()
        if m + ahead < pipeline.microbatches:
            tape.run((rank, "F"))
    tape.weights(tape.waiting)
    return tape.cells


H1 = ScheduleDef(
    name="zb-h1",
    summary="1F1B's memory, a third of its bubble where F = I = W",
    source="Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241",
    aliases=("zb1p-handcrafted",),
    order=lambda pipeline, rank: _order(pipeline, rank, pipeline.ranks - rank, rank),
)
H2 = ScheduleDef(
    name="zb-h2",
    summary="no bubble within a rank's span where F = I = W, at twice 1F1B's memory",
    source="Qi et al., Zero Bubble Pipeline Parallelism, arXiv 2401.10241",
    order=lambda pipeline, rank: _order(pipeline, rank, 2 * (pipeline.ranks - rank) - 1, 2 * rank),
)
