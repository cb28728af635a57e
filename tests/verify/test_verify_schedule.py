"""A schedule that leaves an action out is caught where the whole path meets, before code is written from it."""

from dataclasses import replace

import pytest

from planner.compose import evaluated, path
from planner.errors import PlannerError
from tests.tiny import tiny_plan


def test_an_action_that_never_runs_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = tiny_plan({"pp": 2}, microbatches=2).pipelined("pp")
    assert evaluated(plan).schedule is not None
    simulated = path.simulated

    def broken(*arguments):
        found = simulated(*arguments)
        schedule = found.timeline.schedule
        last = (*schedule.orders[:-1], schedule.orders[-1][:-1])
        return replace(found, timeline=replace(found.timeline, schedule=replace(schedule, orders=last)))

    monkeypatch.setattr(path, "simulated", broken)
    with pytest.raises(PlannerError, match="never runs") as caught:
        evaluated(plan)
    assert caught.value.code == "verify.broken"
