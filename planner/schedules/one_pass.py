"""The two schedules that everybody starts with: fill and drain, and one forward one backward."""

from __future__ import annotations

from ..core.schedule import Action
from .definition import Order, Pipeline, ScheduleDef, cells


def _fill_drain(pipeline: Pipeline, rank: int) -> Order:
    return cells(Action(rank, kind, m) for kind in "FB" for m in range(pipeline.microbatches))


def _one_forward_one_backward(pipeline: Pipeline, rank: int) -> Order:
    """Fill with as many forwards as there are stages from here on; then every backward makes room for a forward."""
    ahead = min(pipeline.ranks - rank - 1, pipeline.microbatches)
    for m in range(ahead):
        yield (Action(rank, "F", m),)
    for m in range(pipeline.microbatches):
        if m + ahead < pipeline.microbatches:
            yield (Action(rank, "F", m + ahead),)
        yield (Action(rank, "B", m),)


GPIPE = ScheduleDef(
    name="gpipe",
    summary="all forwards, then all backwards; keeps the activations of every microbatch",
    source="Huang et al., GPipe, arXiv 1811.06965",
    torch="ScheduleGPipe",
    aliases=("fill-drain",),
    order=_fill_drain,
)
ONE_F_ONE_B = ScheduleDef(
    name="1f1b",
    summary="one forward, one backward; rank s of p keeps p - s microbatches",
    source="Narayanan et al., PipeDream-Flush, arXiv 2006.09503",
    torch="Schedule1F1B",
    # MindSpore writes the same order into its graph as control edges.
    aliases=("reordered", "mindspore-reorder"),
    order=_one_forward_one_backward,
)
