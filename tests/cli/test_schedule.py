"""`schedule`: the picture, the numbers, torch's CSV, and refusals."""

from __future__ import annotations

import pytest

from planner.schedules import SCHEDULES, read_csv
from tests.cli.command import answer, shardwright


def test_every_schedule_is_listed_and_drawn() -> None:
    listed = shardwright("schedule").out
    for name in (*SCHEDULES, "automatic"):
        assert f"\n{name} " in listed
        ran = shardwright("schedule", name)
        assert (ran.code, ran.err) == (0, "")
        assert "makespan" in ran.out


def test_the_picture_of_1f1b() -> None:
    ran = shardwright("schedule", "1f1b", "--ranks", "2", "--microbatches", "2")
    first, second = ran.out.splitlines()[:2]
    assert [word for word in first.replace("·", " ").replace("─", " ").split()] == ["0", "F0", "F1", "B0", "B1"]
    assert [word for word in second.replace("·", " ").replace("─", " ").split()] == ["1", "F0", "B0", "F1", "B1"]
    assert "33.3%  of all rank time" in ran.out


def test_json_is_the_timeline() -> None:
    found = answer("schedule", "interleaved", "--parts", "2", "--ranks", "4", "--microbatches", "8")
    assert (found["schedule"], found["makespan"], found["microbatches"]) == ("interleaved-1f1b", 28.5, 8)
    assert found["bubble"]["of_total"] == pytest.approx(3 / 19)
    assert sum(found["causes"].values()) == pytest.approx(4.5)
    assert [len(order) for order in found["orders"]] == [32] * 4


def test_csv_is_torch_s() -> None:
    ran = shardwright("schedule", "zb-v", "--csv")
    assert read_csv(ran.out, "zb-v") == SCHEDULES["zb-v"].build(4, 8)


def test_the_automatic_one_heeds_the_room() -> None:
    loose = answer("schedule", "automatic", "--ranks", "2", "--microbatches", "3", "--weights", "0.5")
    tight = answer("schedule", "automatic", "--ranks", "2", "--microbatches", "3", "--weights", "0.5", "--keep", "1")
    assert max(tight["kept"]) == 1
    assert loose["makespan"] < tight["makespan"]
    assert "the best order there is" in loose["note"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("nothing",), "schedule.unknown", "Use one of gpipe, 1f1b"),
        (("interleaved-1f1b", "--microbatches", "9"), "schedule.microbatches", "Use 6 or 7 or 8 or 10 microbatches."),
        (("1f1b", "--ranks", "1024", "--microbatches", "4096"), "schedule.too-large", "12,582,912 actions"),
        (("zb-v", "--parts", "3"), "schedule.parts", "Cut the model into 8 parts"),
    ],
)
def test_refusals(arguments: tuple[str, ...], code: str, says: str) -> None:
    ran = shardwright("schedule", *arguments, "--json")
    assert (ran.code, ran.json["code"]) == (2, code)
    assert says in f"{ran.json['message']} {ran.json['hint']}"
