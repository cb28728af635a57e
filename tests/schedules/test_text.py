"""Schedules as torch's CSV and back."""

import pytest
from hypothesis import given

from planner.core.schedule import Action, Schedule
from planner.errors import ScheduleError
from planner.schedules.text import read_csv, write_csv
from tests.schedules.strategies import schedules


@given(schedules())
def test_round_trip(schedule: Schedule) -> None:
    assert read_csv(write_csv(schedule), schedule.name) == schedule


def test_bubbles_and_lowered_cells_say_nothing() -> None:
    plain = read_csv("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n")
    lowered = read_csv("0UNSHARD,0F0,0SEND_F0,0F1,,0RECV_B0,0B0,0B1,0REDUCE_GRAD\n,1F0,1B0,1F1,1B1\n")
    assert lowered == plain
    assert plain.placement == (0, 1)


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("0F0,0X0\n", "schedule.action", "'0X0'"),
        ("0F0\n0B0\n", "schedule.placement", "Stage 0 runs on rank 0 and on rank 1"),
        ("0F0,2F0\n", "schedule.empty", "0, 2"),
        ("", "schedule.empty", "(none)"),
        ("," * 1_000_001, "schedule.size", "1,000,000"),
    ],
)
def test_refusals(text: str, code: str, says: str) -> None:
    with pytest.raises(ScheduleError) as caught:
        read_csv(text)
    assert caught.value.code == code
    assert says in str(caught.value)


def test_actions_print_as_they_parse() -> None:
    assert str(Action.parse("12W3")) == "12W3"
