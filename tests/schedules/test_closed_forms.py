"""Equal stages without communication: makespan, bubble and microbatches in flight by their closed forms."""

import pytest

from planner.core.timeline import StageTimes, Timeline
from planner.errors import ScheduleError
from planner.schedules import SCHEDULES
from planner.schedules.measures import bubble
from planner.schedules.simulate import simulate

TIMES = (2.0, 3.0, 1.0)
WORK = sum(TIMES)


def timeline(
    name: str, ranks: int, micros: int, per_rank: int = 0, times: tuple[float, float, float] = TIMES
) -> Timeline:
    schedule = SCHEDULES[name].build(ranks, micros, per_rank)
    share = len(schedule.placement) / len(schedule.chains) / ranks
    forward, inputs, weights = (t / share for t in times)
    one = StageTimes(forward=forward, backward_input=inputs, backward_weight=weights, activation=1, weight_gradient=1)
    return simulate(schedule, (one,) * len(schedule.placement))


def span(line: Timeline) -> float:
    """Return the longest time from a rank's first action to its last."""
    return max(line.compute(r)[-1].stop - line.compute(r)[0].start for r in range(line.schedule.ranks))


RANKS = (2, 4, 8)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_fill_and_drain(ranks: int, rounds: int) -> None:
    micros = ranks * rounds
    whole = (micros + ranks - 1) * WORK
    for name in ("gpipe", "1f1b", "looped-bfs"):
        line = timeline(name, ranks, micros)
        assert line.makespan == pytest.approx(whole)
        assert bubble(line).of_total == pytest.approx((ranks - 1) / (micros + ranks - 1))
        assert bubble(line).of_useful == pytest.approx((ranks - 1) / micros)
    assert [timeline("gpipe", ranks, micros).in_flight(r) for r in range(ranks)] == [micros] * ranks
    assert [timeline("1f1b", ranks, micros).in_flight(r) for r in range(ranks)] == [
        min(micros, ranks - r) for r in range(ranks)
    ]


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("per_rank", [1, 2, 3])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_interleaved(ranks: int, per_rank: int, rounds: int) -> None:
    micros = ranks * rounds
    line = timeline("interleaved-1f1b", ranks, micros, per_rank)
    idle = (ranks - 1) * WORK / per_rank
    assert line.makespan == pytest.approx(micros * WORK + idle)
    assert bubble(line).of_total == pytest.approx((ranks - 1) / (per_rank * micros + ranks - 1))
    for rank in range(ranks):
        ahead = min((per_rank - 1) * ranks + 2 * (ranks - 1 - rank), micros * per_rank)
        assert line.in_flight(rank) == min(ahead + 1, micros * per_rank)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("rounds", [2, 3, 4])
@pytest.mark.parametrize("times", [(1.0, 1.0, 1.0), (2.0, 2.0, 1.0), (3.0, 3.0, 2.0)])
def test_zero_bubble_h1(ranks: int, rounds: int, times: tuple[float, float, float]) -> None:
    """The bubble is (p - 1)(F + I - W), and no rank keeps more than 1F1B's first."""
    forward, inputs, weights = times
    line = timeline("zb-h1", ranks, ranks * rounds, times=times)
    assert line.makespan == pytest.approx(ranks * rounds * sum(times) + (ranks - 1) * (forward + inputs - weights))
    assert [line.in_flight(rank) for rank in range(ranks)] == [ranks] * ranks


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("rounds", [2, 3, 4])
def test_no_bubble_within_a_span(ranks: int, rounds: int) -> None:
    """H2 and the V leave no rank idle between its first and last action where F = I = W."""
    micros = ranks * rounds
    for name, most in (("zb-h2", 2 * ranks - 1), ("zb-v", 2 * ranks)):
        line = timeline(name, ranks, micros, times=(1.0, 1.0, 1.0))
        assert span(line) == pytest.approx(3 * micros), name
        assert bubble(line).of_span == pytest.approx(0)
        assert max(line.in_flight(rank) for rank in range(ranks)) == min(most, micros * SCHEDULES[name].per_rank)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("name", ["v-half", "v-min"])
def test_controllable_memory(ranks: int, name: str) -> None:
    """Parts kept: a half and a third of 1F1B's 2p, and what the waits at the turns add."""
    line = timeline(name, ranks, 4 * ranks, times=(1.0, 1.0, 1.0))
    most = max(line.in_flight(rank) for rank in range(ranks))
    strides = {"v-half": 3, "v-min": 2}[name]
    assert most <= 2 * (ranks - 1) * strides / 6 + 4
    assert line.makespan < timeline("1f1b", ranks, 4 * ranks, times=(1.0, 1.0, 1.0)).makespan


@pytest.mark.parametrize(("ranks", "micros"), [(4, 8), (8, 16), (8, 20)])
def test_dual_pipes_hide_communication_not_work(ranks: int, micros: int) -> None:
    """The two forms are the same pipeline, of half as many ranks folded: (p / 2 - 1)(F + I + W - …) idle at most."""
    both = timeline("dualpipe", ranks, 2 * micros, times=(1.0, 1.0, 1.0))
    ideal = 2 * micros * 3.0
    assert ideal <= both.makespan <= ideal + (ranks / 2 - 1) * (2 * 3.0 - 3.0)
    assert {both.in_flight(rank) for rank in range(ranks)} == {ranks + 1}


def test_mindspore_reordered_orders() -> None:
    two, four = SCHEDULES["1f1b"].build(2, 4), SCHEDULES["1f1b"].build(4, 4)
    orders = [" ".join(f"{c[0].kind}{c[0].microbatch}" for c in order) for order in (*two.orders, four.orders[0])]
    assert orders == ["F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3", "F0 F1 F2 F3 B0 B1 B2 B3"]


@pytest.mark.parametrize(
    ("name", "ranks", "micros", "per_rank", "code", "remedy"),
    [
        ("interleaved-1f1b", 4, 9, 2, "schedule.microbatches", "Use 6 or 7 or 8 or 10 microbatches."),
        ("dualpipe", 4, 6, 2, "schedule.microbatches", "Use 8 or 10 or 12 or 14 microbatches."),
        ("dualpipe", 3, 12, 2, "schedule.ranks", "Use another schedule or number of ranks."),
        ("dualpipe-v", 4, 7, 2, "schedule.microbatches", "Use 8 or 9 or 10 or 11 microbatches."),
        ("zb-v", 4, 8, 3, "schedule.parts", "Cut the model into 8 parts for 4 ranks."),
        ("1f1b", 4, 0, 1, "schedule.microbatches", "Use at least one of both."),
    ],
)
def test_illegal_ones_name_legal_ones(
    name: str, ranks: int, micros: int, per_rank: int, code: str, remedy: str
) -> None:
    with pytest.raises(ScheduleError) as caught:
        SCHEDULES[name].build(ranks, micros, per_rank)
    assert (caught.value.code, caught.value.diagnostic.hint) == (code, remedy)
