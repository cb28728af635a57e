"""Cuts of a model into stages, against all cuts."""

from importlib import import_module
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.core.schedule import loop, vee
from planner.core.timeline import StageTimes
from planner.errors import ScheduleError
from planner.schedules.partition import cut, join, partition

module: Any = import_module("planner.schedules.partition")


def _layer(work: float, resident: float = 1.0) -> StageTimes:
    return StageTimes(forward=work, backward_input=work, backward_weight=work, activation=1, resident=resident)


def _busiest(layers: tuple[StageTimes, ...], cuts: tuple[int, ...], placement: tuple[int, ...]) -> float:
    seconds = [0.0] * (max(placement) + 1)
    for stage, (start, stop) in enumerate(pairwise(cuts)):
        seconds[placement[stage]] += sum(layer.work for layer in layers[start:stop])
    return max(seconds)


def _fits(layers: tuple[StageTimes, ...], cuts: tuple[int, ...], placement: tuple[int, ...], cap: float) -> bool:
    held = [0.0] * (max(placement) + 1)
    for stage, (start, stop) in enumerate(pairwise(cuts)):
        held[placement[stage]] += sum(layer.resident + layer.activation for layer in layers[start:stop])
    return max(held) <= cap


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 3)), min_size=4, max_size=9),
    st.sampled_from([loop(2, 2), loop(3, 3), loop(2, 4), vee(2, 4)]),
    st.sampled_from([0.6, 0.8, 9.0]),
)
@settings(max_examples=25)
def test_as_good_as_all_cuts(drawn: list[tuple[int, int]], placement: tuple[int, ...], room: float) -> None:
    layers = tuple(_layer(work, resident) for work, resident in drawn)
    ranks = max(placement) + 1
    cap = room * sum(layer.resident + layer.activation for layer in layers)
    tried = [(0, *inner, len(layers)) for inner in combinations(range(1, len(layers)), len(placement) - 1)]
    fitting = [cuts for cuts in tried if _fits(layers, cuts, placement, cap)]
    if not fitting:
        with pytest.raises(ScheduleError) as caught:
            partition(layers, placement, (cap,) * ranks)
        assert caught.value.code == "schedule.memory"
        return
    best = min(_busiest(layers, cuts, placement) for cuts in fitting)
    found = partition(layers, placement, (cap,) * ranks)
    assert found.cuts in fitting
    assert max(found.rank_seconds) == pytest.approx(best)
    assert found.bound == pytest.approx(best)
    largest = min(
        max(stage.work for stage in cut(layers, cuts))
        for cuts in fitting
        if _busiest(layers, cuts, placement) <= best + 1e-9
    )
    assert max(stage.work for stage in found.stages) == pytest.approx(largest)


def test_embedding_and_head_are_weighed_in() -> None:
    """A head as dear as two layers takes two layers off the last stage."""
    layers = (_layer(1.0),) * 14 + (_layer(2.0),)
    assert partition(layers, loop(4, 4)).cuts == (0, 4, 8, 12, 15)


def test_deep_models_of_equal_layers_are_quick() -> None:
    layers = (_layer(0.1), *(_layer(1.0),) * 126, _layer(0.7))
    found = partition(layers, loop(16, 32))
    assert found.gap == pytest.approx(0)
    assert max(found.rank_seconds) == pytest.approx(24.0)


@pytest.mark.parametrize("largest", [1.0, 70e9])
def test_layers_that_are_nothing_beside_the_memory(largest: float) -> None:
    """A solver takes no coefficient of 1e-11."""
    layers = (_layer(1.0, largest), *(_layer(1.0) for _ in range(3)), _layer(1.0, largest))
    assert partition(layers, loop(2, 2), (80e9,) * 2).cuts in {(0, 2, 5), (0, 3, 5)}


def test_costs_of_a_stage_are_the_sums() -> None:
    left, right = StageTimes(forward=1, backward_input=2, backward_weight=3, send_forward=4, send_backward=5), _layer(1)
    both = join((left, right))
    assert (both.forward, both.backward_input, both.send_forward, both.send_backward) == (2, 3, 0, 5)


@pytest.mark.parametrize(
    ("cuts", "says"),
    [
        ((0, 2, 2, 4), "Stage 1, from layer 2, is empty"),
        ((0, 3, 1, 4), "Stage 1, from layer 3, ends at layer 1"),
        ((0, 2, 3), "leave out some of the 4 layers"),
        ((1, 4), "leave out some of the 4 layers"),
    ],
)
def test_cuts_that_are_none(cuts: tuple[int, ...], says: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        cut((_layer(1),) * 4, cuts)
    assert caught.value.code == "schedule.cut"
    assert says in str(caught.value)


def test_more_stages_than_layers() -> None:
    with pytest.raises(ScheduleError) as caught:
        partition((_layer(1),) * 3, loop(4, 4))
    assert caught.value.code == "schedule.stages"


@pytest.mark.parametrize(("stages", "ranks", "head"), [(4, 4, 0), (32, 16, 1), (6, 3, 2), (5, 5, 3)])
def test_many_equal_layers_are_cut_as_well_without_the_solver(
    stages: int, ranks: int, head: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = (*[_layer(2.0)] * (4 * stages - head), *[_layer(1.0)] * head)
    solved = partition(layers, loop(ranks, stages))
    monkeypatch.setattr(module, "_least", lambda *_: 0.0)
    monkeypatch.setattr(module, "_room", lambda *_: 0.0)
    slow = partition(layers, loop(ranks, stages))
    assert max(solved.rank_seconds) == pytest.approx(max(slow.rank_seconds))
    assert max(s.work for s in solved.stages) == pytest.approx(max(s.work for s in slow.stages))
    assert solved.bound == pytest.approx(slow.bound)


def test_many_equal_layers_ask_no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_Program", None)
    found = partition((*[_layer(3.0)] * 62, _layer(1.0)), loop(16, 16))
    assert max(found.rank_seconds) == found.bound == 4 * 9.0
