"""Stages run by every schedule give the losses and gradients of the model in one piece."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from planner.core.schedule import Schedule
from planner.proof.ranks import Ranks
from planner.schedules import SCHEDULES
from tests.exporters.pipelined import Run, results, worst

pytest.importorskip("torch")

TOLERANCE = 1e-10
Running = Callable[[int], Ranks]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """Running ranks by their number."""
    with ExitStack() as stack:
        found: dict[int, Ranks] = {}

        def get(world: int) -> Ranks:
            if world not in found:
                found[world] = stack.enter_context(Ranks(world, timeout=60))
            return found[world]

        yield get


def schedule(name: str, ranks: int) -> Schedule:
    per_rank = SCHEDULES[name].per_rank or (1 if name == "1f1b" else 2)
    return SCHEDULES[name].build(ranks, 2 * ranks, per_rank)


def uneven(parts: int) -> tuple[int, ...]:
    """Cut into parts of 1, 2, 0, 1, 2, 0, … layers."""
    cuts = [0]
    for part in range(parts):
        cuts.append(cuts[-1] + (1, 2, 0)[part % 3])
    return tuple(cuts)


def check(run: Run, running: Running, kind: str = "gradients") -> None:
    error, where = worst(results(run, running(run.world), running(1), kind=kind))
    assert error <= TOLERANCE, f"{where}: {error}"


QUICK = [
    ("1f1b", 2, {"dp": 2, "zero": 1}, "training"),
    ("zb-v", 2, {"tp": 2}, "gradients"),
    ("dualpipe", 2, {"dp": 2, "zero": 3}, "gradients"),
]


@pytest.mark.parametrize(("name", "ranks", "more", "kind"), QUICK)
def test_a_sample_of_schedules(name: str, ranks: int, more: dict[str, int], kind: str, running: Running) -> None:
    order = schedule(name, ranks)
    check(Run(schedule=order, cuts=uneven(order.parts), **more), running, kind)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"dp": 2}, {"tp": 2}, {"dp": 2, "zero": 2}, {"dp": 2, "zero": 3}], ids=str)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule(name: str, ranks: int, more: dict[str, int], running: Running) -> None:
    order = schedule(name, ranks)
    check(Run(schedule=order, cuts=uneven(order.parts), **more), running)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_trains(name: str, ranks: int, running: Running) -> None:
    order = schedule(name, ranks)
    check(Run(schedule=order, cuts=uneven(order.parts), dp=2, zero=1), running, "training")
