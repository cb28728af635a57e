"""Stages run by every schedule give the losses and gradients of the model in one piece, and pass what they should."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from planner.core.schedule import Schedule
from planner.proof.job import RankResult
from planner.proof.ranks import Ranks
from planner.schedules import SCHEDULES
from tests.exporters.pipelined import LENGTH, SEQUENCES, WIDTH, Run, results, results_here, staged, whole, worst
from tests.ranks import fork_server

pytest.importorskip("torch")
from tests.proof.threads import each_rank

TOLERANCE = 1e-10
Running = Callable[[int], Ranks]
More = dict[str, int]


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    """Running ranks by their number."""
    fork_server()
    with ExitStack() as stack:
        found: dict[int, Ranks] = {}

        def get(world: int) -> Ranks:
            if world not in found:
                found[world] = stack.enter_context(Ranks(world, timeout=120))
            return found[world]

        yield get


def schedule(name: str, ranks: int) -> Schedule:
    per_rank = SCHEDULES[name].per_rank or 2
    return SCHEDULES[name].build(ranks, 2 * ranks, per_rank)


def uneven(parts: int) -> tuple[int, ...]:
    """Cut into parts of 1, 2, 0, 1, 2, 0, … layers."""
    cuts = [0]
    for part in range(parts):
        cuts.append(cuts[-1] + (1, 2, 0)[part % 3])
    return tuple(cuts)


def run_of(name: str, ranks: int, more: More, **options: Any) -> Run:
    order = schedule(name, ranks)
    return Run(schedule=order, cuts=uneven(order.parts), **more, **options)


def check(answers: tuple[RankResult | str, ...]) -> None:
    error, where = worst(answers)
    assert error <= TOLERANCE, f"{where}: {error}"


MORE = [{"tp": 2}, {"dp": 2}, {"dp": 2, "zero": 2}, {"dp": 2, "zero": 3}]


@pytest.mark.parametrize(("turn", "name"), list(enumerate(SCHEDULES)))
def test_every_schedule_on_two_stages_a_rank_or_one(turn: int, name: str, tmp_path: Path) -> None:
    run = run_of(name, 2, MORE[turn % len(MORE)])
    answers = results_here(run, tmp_path)
    check(answers)
    for rank, answer in enumerate(answers):
        assert isinstance(answer, RankResult)
        sent = Counter(entry[2] for entry in answer.collectives if entry[0] == "send_recv")
        assert sent == messages(run, rank // (run.dp * run.tp)), rank


def messages(run: Run, place: int) -> Counter[int]:
    """Return how many messages of how many bytes the ranks at a place of the pipeline send in a step.

    x goes from each stage to the next, cut over dp and tp; from the first to the second and the last goes the first
    layer's result, cut over dp, and to the last go the places, which have no gradient.
    """
    found: Counter[int] = Counter()
    order, last = run.schedule, run.schedule.parts - 1
    rows = SEQUENCES // run.dp * LENGTH
    hops = [(part, part + 1, 8 * rows // run.tp * WIDTH, True) for part in range(last)]
    hops += [(0, 1, 8 * rows * WIDTH, True)] * (last > 1)
    hops += [(0, last, 8 * rows * WIDTH, True), (0, last, 8 * rows, False)]
    for chain in order.chains:
        for source, target, size, returns in hops:
            ends = order.placement[chain.stages[source]], order.placement[chain.stages[target]]
            if ends[0] != ends[1]:
                found[size] += len(chain.microbatches) * ((ends[0] == place) + (returns and ends[1] == place))
    return +found


@pytest.mark.parametrize("name", ["1f1b", "dualpipe-v"])
def test_training_updates_copies_alike(name: str, tmp_path: Path) -> None:
    check(results_here(run_of(name, 2, {"dp": 2, "zero": 1}), tmp_path, kind="training"))


@pytest.mark.parametrize("name", ["1f1b", "dualpipe"])
def test_the_norm_counts_what_several_stages_hold_once(name: str) -> None:
    run = run_of(name, 2, {"tp": 2})

    def norm(train: ModuleType) -> float:
        modules = sys.modules
        mesh = modules["parallel.mesh"].Mesh(train.SETTINGS.mesh)
        model = train.MODEL(mesh).double()
        mesh.compute = next(model.parameters()).dtype
        modules["parallel.parameters"].initialise(model, mesh, seed=0)
        batch = modules["parallel.data"].synthetic_batch(0, train.SETTINGS.inputs, seed=0)
        train.trainer.loss_of_step(model, batch, train.SETTINGS, mesh)
        return float(modules["parallel.clip"].gradient_norm(model, mesh))

    (alone,) = each_rank(whole(run), 1, norm)
    for found in each_rank(staged(run), run.world, norm):
        assert found == pytest.approx(alone, rel=1e-12)


def test_copies_start_as_the_first() -> None:
    run = run_of("dualpipe", 2, {})

    def spread(train: ModuleType) -> dict[str, float]:
        mesh = sys.modules["parallel.mesh"].Mesh(train.SETTINGS.mesh)
        model = train.MODEL(mesh)
        for parameter in model.parameters():
            parameter.data.fill_(1 + mesh.rank)
        model.spread()
        return {name: float(parameter.detach().mean()) for name, parameter in model.named_parameters()}

    for values in each_rank(staged(run), 2, spread):
        assert isinstance(values, dict), values
        assert set(values.values()) == {1.0}


def test_ranks_as_processes(running: Running) -> None:
    run = run_of("zb-v", 2, {})
    check(results(run, running(2), running(1)))


@pytest.mark.slow
@pytest.mark.parametrize("more", MORE, ids=str)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule(name: str, ranks: int, more: More, running: Running) -> None:
    run = run_of(name, ranks, more)
    check(results(run, running(run.world), running(1)))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_schedule_trains(name: str, ranks: int, running: Running) -> None:
    run = run_of(name, ranks, {"dp": 2, "zero": 1})
    check(results(run, running(run.world), running(1), kind="training"))


@pytest.mark.slow
@pytest.mark.parametrize("more", [{"tp": 2}, {"dp": 2, "zero": 2}], ids=str)
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("name", [name for name, definition in SCHEDULES.items() if definition.torch])
def test_every_schedule_of_torch(name: str, ranks: int, more: More, running: Running) -> None:
    run = run_of(name, ranks, more, skips=False, torch=SCHEDULES[name].torch)
    check(results(run, running(run.world), running(1)))
