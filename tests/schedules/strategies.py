"""Random pipelines for property tests."""

from hypothesis import strategies as st

from planner.core.schedule import Schedule
from planner.core.timeline import StageTimes
from planner.schedules import SCHEDULES, ScheduleDef
from planner.schedules.definition import Pipeline

seconds = st.integers(1, 9).map(float)
messages = st.sampled_from((0.0, 0.5, 1.0, 4.0))

stage_times = st.builds(
    StageTimes,
    forward=seconds,
    backward_input=seconds,
    backward_weight=seconds,
    recompute=st.sampled_from((0.0, 0.0, 2.0)),
    send_forward=messages,
    send_backward=messages,
    reduce=messages,
    optimizer=messages,
    activation=st.integers(2, 5).map(float),
    weight_gradient=st.sampled_from((0.0, 1.0, 2.0)),
    resident=st.sampled_from((0.0, 7.0)),
)


def legal(definition: ScheduleDef, ranks: int, per_rank: int, most: int) -> list[int]:
    """Return the legal numbers of microbatches up to a number."""
    return [m for m in range(1, most + 1) if definition.legal(Pipeline(ranks=ranks, per_rank=per_rank, microbatches=m))]


@st.composite
def schedules(draw: st.DrawFn, most_ranks: int = 6, most_micros: int = 16) -> Schedule:
    """Draw any legal schedule of the table."""
    definition = draw(st.sampled_from(list(SCHEDULES.values())))
    ranks = draw(st.integers(1, most_ranks))
    per_rank = definition.per_rank or draw(st.integers(1, 3))
    micros = legal(definition, ranks, per_rank, most_micros)
    if not micros:
        ranks = 2 * (ranks // 2) or 2
        micros = legal(definition, ranks, per_rank, 2 * most_micros)
    return definition.build(ranks, draw(st.sampled_from(micros)), per_rank)


@st.composite
def timed(draw: st.DrawFn) -> tuple[Schedule, tuple[StageTimes, ...]]:
    """Draw a schedule with uneven stages."""
    schedule = draw(schedules())
    return schedule, tuple(draw(stage_times) for _ in schedule.placement)
