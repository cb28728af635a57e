"""What holds for every schedule and any stage times."""

from itertools import pairwise

import pytest
from hypothesis import given

from planner.core.schedule import Action, Schedule
from planner.core.timeline import Span, StageTimes, Timeline
from planner.errors import ScheduleError
from planner.schedules import SCHEDULES
from planner.schedules.bound import lower_bound
from planner.schedules.measures import bubble, causes, critical_path
from planner.schedules.simulate import course, seconds, simulate
from planner.verify import verify_schedule
from tests.schedules.strategies import timed

Timed = tuple[Schedule, tuple[StageTimes, ...]]


def _passes(timeline: Timeline) -> dict[tuple[int, str, int], Span]:
    """Return the pass of every stage, kind and microbatch; a full backward counts as both halves."""
    return {
        (a.stage, kind, a.microbatch): span
        for rank in range(timeline.schedule.ranks)
        for span in timeline.compute(rank)
        for a in span.actions
        for kind in {"B": "IW"}.get(a.kind, a.kind)
    }


@given(timed())
def test_dependencies_and_messages(case: Timed) -> None:
    schedule, times = case
    assert verify_schedule(schedule) == ()
    timeline = simulate(schedule, times)
    passes = _passes(timeline)
    sent = {
        (s.stream, s.actions[0].stage, s.actions[0].microbatch): s
        for x in timeline.spans
        for s in x
        if s.stream in ("forward", "backward")
    }
    for chain in schedule.chains:
        for micro in chain.microbatches:
            for left, right in pairwise(chain.stages):
                far = schedule.placement[left] != schedule.placement[right]
                for kind, stream, maker, reader in (("F", "forward", left, right), ("I", "backward", right, left)):
                    made, read = passes[(maker, kind, micro)], passes[(reader, kind, micro)]
                    message = sent.pop((stream, maker, micro), None)
                    assert (message is not None) == far
                    if message is None:
                        assert made.stop <= read.start
                    else:
                        assert made.stop <= message.start <= message.stop <= read.start
            for stage in chain.stages:
                assert passes[(stage, "F", micro)].stop <= passes[(stage, "I", micro)].start
                assert passes[(stage, "I", micro)].stop <= max(
                    passes[(stage, "W", micro)].start, passes[(stage, "W", micro)].stop
                )
    assert not sent
    for rank in range(schedule.ranks):
        for left_span, right_span in pairwise(timeline.compute(rank)):
            assert left_span.stop <= right_span.start
        for span in timeline.compute(rank):
            assert span.stop - span.start == pytest.approx(sum(seconds(times[a.stage], a.kind) for a in span.actions))


@given(timed())
def test_memory_is_what_is_held(case: Timed) -> None:
    schedule, times = case
    timeline = simulate(schedule, times)
    for rank in range(schedule.ranks):
        held = sum(times[stage].resident for stage in schedule.stages_of(rank))
        assert timeline.memory[rank][0] == (0.0, held)
        assert timeline.memory[rank][-1][1] == pytest.approx(held)
        most = held
        for cell in schedule.orders[rank]:
            held += sum(times[a.stage].activation for a in cell if a.kind == "F")
            most = max(most, held)
            for action in cell:
                cost = times[action.stage]
                held -= {
                    "F": 0.0, "I": cost.activation - cost.weight_gradient, "W": cost.weight_gradient,
                    "B": cost.activation,
                }[action.kind]  # fmt: skip
        assert timeline.peak_memory(rank) == pytest.approx(most)


@given(timed())
def test_bounds_and_causes(case: Timed) -> None:
    schedule, times = case
    timeline = simulate(schedule, times)
    end = max(timeline.compute(rank)[-1].stop for rank in range(schedule.ranks))
    assert end >= lower_bound(schedule, times) - 1e-9
    found, shares = causes(timeline), bubble(timeline)
    work = sum(t.work * len(c.microbatches) for c in schedule.chains for s in c.stages for t in [times[s]])
    parts = found.ideal + found.imbalance + found.recompute + found.communication
    assert parts == pytest.approx(end - work / schedule.ranks)
    assert shares.of_total == pytest.approx(1 - work / schedule.ranks / end)
    assert found.ideal >= -1e-9
    assert 0 <= shares.of_span < 1


@given(timed())
def test_the_critical_path_has_no_gap(case: Timed) -> None:
    timeline = simulate(*case)
    path = critical_path(timeline)
    assert path[0].start == 0
    assert all(left.stop == right.start for left, right in pairwise(path))
    assert path[-1].stop == max(timeline.compute(rank)[-1].stop for rank in range(timeline.schedule.ranks))


def _edited(schedule: Schedule, orders: list[str]) -> Schedule:
    return Schedule(
        name="edited",
        placement=schedule.placement,
        chains=schedule.chains,
        orders=tuple(tuple((Action.parse(cell),) for cell in order.split()) for order in orders),
    )


ONE = StageTimes(forward=1, backward_input=1, backward_weight=1)
PAIR = SCHEDULES["1f1b"].build(2, 2)


def test_a_deadlock_names_its_cycle() -> None:
    schedule = _edited(PAIR, ["0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"])
    assert verify_schedule(schedule) == ()
    with pytest.raises(ScheduleError) as caught:
        simulate(schedule, (ONE, ONE))
    assert caught.value.code == "schedule.deadlock"
    assert "rank 0 at 0B0 waits for 1B0 of rank 1" in str(caught.value)
    assert "rank 1 at 1F1 waits for 0F1 of rank 0" in str(caught.value)


def test_a_missing_action_is_named() -> None:
    schedule = _edited(PAIR, ["0F0 0B0 0F1 0B1", "1F0 1F1 1B1"])
    assert [p.message for p in verify_schedule(schedule)] == ["1I0 never runs.", "1W0 never runs."]
    with pytest.raises(ScheduleError) as caught:
        simulate(schedule, (ONE, ONE))
    assert caught.value.code == "schedule.missing-action"


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        (["0F0 0B0 0F1 0B1 0B1", "1F0 1B0 1F1 1B1"], "0I1 runs 2 times."),
        (["0F0 0B0 0F1 0B1", "1F0 1B0 1F1 1I1 1W1 1W1"], "1W1 runs 2 times."),
        (["0F0 0B0 0F1 0B1 0F2", "1F0 1B0 1F1 1B1"], "0F2 runs, but is of no microbatch."),
        (["0F0 0B0 0F1 0B1", "1F0 1B0 0F1 1F1 1B1"], "0F1 runs on rank 1, which does not hold stage 0."),
    ],
)
def test_verify_finds_what_is_wrong(orders: list[str], message: str) -> None:
    assert message in [p.message for p in verify_schedule(_edited(PAIR, orders))]


def test_reductions_wait_for_the_last_backward_and_the_optimizer_for_them() -> None:
    times = (StageTimes(forward=1, backward_input=1, backward_weight=1, reduce=10, optimizer=2),) * 2
    timeline = simulate(PAIR, times)
    for rank in range(2):
        reduce = next(s for s in timeline.spans[rank] if s.stream == "reduce")
        update = next(s for s in timeline.spans[rank] if not s.actions and s.stream == "compute")
        assert (reduce.start, update.start) == (timeline.compute(rank)[-1].stop, reduce.stop)
    assert timeline.makespan == timeline.compute(0)[-1].stop + 12


def test_times_for_every_stage() -> None:
    with pytest.raises(ScheduleError) as caught:
        simulate(PAIR, (ONE,))
    assert caught.value.code == "schedule.times"


@given(timed())
def test_lengths_are_those_of_the_timeline(case: Timed) -> None:
    schedule, times = case
    timeline = simulate(schedule, times)
    spans = [timeline.compute(rank) for rank in range(schedule.ranks)]
    assert course(schedule).makespan(times) == timeline.makespan
    assert course(schedule).length(times) == max(each[-1].stop for each in spans if each)
