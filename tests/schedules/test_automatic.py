"""The automatic order: never worse than a named one that fits, and the best one where all can be tried."""

from collections.abc import Iterator
from functools import cache
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.core.schedule import Action, Schedule, loop, vee
from planner.core.timeline import StageTimes
from planner.errors import ScheduleError
from planner.schedules import SCHEDULES
from planner.schedules.automatic import automatic
from planner.schedules.bound import lower_bound
from planner.schedules.simulate import simulate
from planner.verify import verify_schedule
from tests.schedules.strategies import stage_times

Order = tuple[Action, ...]


@cache
def _orders(stage: int, micros: int) -> tuple[Order, ...]:
    """Return every order of a rank with one stage, microbatches one after the other."""

    def grow(f: int, i: int, w: int) -> Iterator[Order]:
        if w == micros:
            yield ()
        for kind, at, free in (("F", f, f < micros), ("I", i, i < f), ("W", w, w < i)):
            if free:
                for rest in grow(f + (kind == "F"), i + (kind == "I"), w + (kind == "W")):
                    yield (Action(stage, kind, at), *rest)

    return tuple(grow(0, 0, 0))


def _peak(order: Order, cost: StageTimes) -> float:
    held = most = cost.resident
    for action in order:
        held += cost.activation if action.kind == "F" else 0.0
        most = max(most, held)
        held -= {"F": 0.0, "I": cost.activation - cost.weight_gradient, "W": cost.weight_gradient}[action.kind]
    return most


def _least(shape: Schedule, times: tuple[StageTimes, ...], caps: tuple[float, ...]) -> float:
    """Return the least makespan of all orders that fit, by trying them: rank by rank against the times of the first."""
    micros = shape.microbatches
    kept = [
        [order for order in _orders(stage, micros) if _peak(order, times[stage]) <= caps[stage]]
        for stage in range(len(times))
    ]
    best = inf

    def descend(chosen: tuple[Order, ...]) -> None:
        nonlocal best
        if len(chosen) == len(times):
            orders = tuple(tuple((a,) for a in order) for order in chosen)
            schedule = Schedule(name="tried", placement=shape.placement, chains=shape.chains, orders=orders)
            try:
                timeline = simulate(schedule, times)
            except ScheduleError:
                return
            best = min(best, max(timeline.compute(r)[-1].stop for r in range(schedule.ranks)))
            return
        for order in kept[len(chosen)]:
            descend((*chosen, order))

    descend(())
    return best


def _named(ranks: int, micros: int) -> tuple[Schedule, ...]:
    return tuple(SCHEDULES[name].build(ranks, micros) for name in ("gpipe", "1f1b", "zb-h1", "zb-h2"))


def _end(schedule: Schedule, times: tuple[StageTimes, ...]) -> float:
    timeline = simulate(schedule, times)
    return max(timeline.compute(rank)[-1].stop for rank in range(schedule.ranks))


@given(st.tuples(stage_times, stage_times), st.integers(1, 3), st.sampled_from((1.0, 1.5, 2.0, 9.0)))
@settings(max_examples=15)
def test_two_stages_against_all_orders(times: tuple[StageTimes, ...], micros: int, room: float) -> None:
    _against_all(times, micros, room)


# All orders of an example are hundreds of thousands of simulations, so ten examples each.
@pytest.mark.slow
@given(st.tuples(stage_times, stage_times), st.sampled_from((1.0, 1.5, 2.0, 9.0)))
@settings(max_examples=10)
def test_two_stages_four_microbatches_against_all_orders(times: tuple[StageTimes, ...], room: float) -> None:
    _against_all(times, 4, room)


@pytest.mark.slow
@given(st.tuples(stage_times, stage_times, stage_times), st.just(3), st.sampled_from((1.0, 1.5, 2.0, 9.0)))
@settings(max_examples=10)
def test_three_stages_against_all_orders(times: tuple[StageTimes, ...], micros: int, room: float) -> None:
    _against_all(times, micros, room)


def _against_all(times: tuple[StageTimes, ...], micros: int, room: float) -> None:
    candidates = _named(len(times), micros)
    caps = tuple(t.resident + room * t.activation for t in times)
    best = automatic(candidates, times, caps)
    assert best.exact
    assert best.gap == 0
    assert _end(best.timeline.schedule, times) == pytest.approx(_least(candidates[0], times, caps))


@given(st.lists(stage_times, min_size=4, max_size=4), st.integers(4, 10), st.sampled_from((2.0, 3.0, 9.0)))
@settings(max_examples=10)
def test_never_worse_than_a_named_one_that_fits(drawn: list[StageTimes], micros: int, room: float) -> None:
    times = tuple(drawn)
    caps = tuple(t.resident + room * t.activation for t in times)
    candidates = _named(4, micros)
    best = automatic(candidates, times, caps, effort=20_000)
    assert verify_schedule(best.timeline.schedule) == ()
    assert all(best.timeline.peak_memory(rank) <= cap + 1e-9 for rank, cap in enumerate(caps))
    for schedule in candidates:
        timeline = simulate(schedule, times)
        if all(timeline.peak_memory(rank) <= cap for rank, cap in enumerate(caps)):
            assert best.timeline.makespan <= timeline.makespan + 1e-9, schedule.name
    end = _end(best.timeline.schedule, times)
    assert lower_bound(best.timeline.schedule, times) <= end + 1e-9
    assert best.gap >= -1e-9


@pytest.mark.parametrize(("placement", "names"), [(vee, ("zb-v", "v-half")), (loop, ("interleaved-1f1b",))])
def test_several_parts_a_rank(placement: object, names: tuple[str, ...]) -> None:
    times = tuple(
        StageTimes(forward=2.0 + s % 3, backward_input=3.0, backward_weight=1.5, send_forward=0.2, send_backward=0.2,
                   activation=1, weight_gradient=1)
        for s in range(8)
    )  # fmt: skip
    candidates = tuple(SCHEDULES[name].build(4, 8, 2) for name in names)
    best = automatic(candidates, times, (inf,) * 4, effort=20_000)
    assert verify_schedule(best.timeline.schedule) == ()
    assert best.timeline.makespan <= min(_end(schedule, times) for schedule in candidates)


def test_too_little_memory_is_an_error_with_numbers() -> None:
    times = (StageTimes(forward=1, backward_input=1, backward_weight=1, activation=5, resident=7),) * 2
    with pytest.raises(ScheduleError) as caught:
        automatic(_named(2, 4), times, (11.0, 20.0))
    assert caught.value.code == "schedule.memory"
    assert "rank 0 may hold 11 bytes" in str(caught.value)
    assert "takes 12" in str(caught.value)
