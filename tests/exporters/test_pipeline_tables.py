"""Tables that do not fit each other are refused before any rank waits for another, with what is wrong."""

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

from planner.exporters.runtime.actions import Action, read_row
from planner.exporters.runtime.check import check
from planner.exporters.runtime.mail import Message, sent
from planner.exporters.runtime.mesh import Mesh
from planner.exporters.runtime.stages import Chain, Pipeline, Stage, Wire
from planner.exporters.runtime.torch_pipeline import by_torch


class OfSize(Mesh):
    """A mesh of which no rank runs."""

    def __init__(self, **sizes: int) -> None:
        self.sizes = sizes


def nothing(mesh: Mesh) -> Any:
    raise AssertionError("no stage is built")


WIRE = Wire(value="x", source=0, target=1, shape=(2, 4), layout="[-, -]")
FITS = Pipeline(
    axis="pp",
    stages=(
        Stage(build=nothing, takes=("tokens",), gives=("x",)),
        Stage(build=nothing, takes=("x", "labels"), gives=("loss",)),
    ),
    wires=(WIRE,),
    rows=("0F0,0F1,0B0,0B1", "1F0,1I0,1F1,1W0,1B1"),
    placement=(0, 1),
    chains=(Chain(stages=(0, 1), microbatches=(0, 1)),),
)


def test_cells_are_read_as_torch_writes_them() -> None:
    assert read_row("2F0,, (0F3;7B0)OVERLAP_F_B ,1W2") == [
        (Action(2, "F", 0),), (Action(0, "F", 3), Action(7, "B", 0)), (Action(1, "W", 2),)
    ]  # fmt: skip
    with pytest.raises(ValueError, match="'2SEND_F0' is not an action"):
        read_row("2SEND_F0")


def test_messages_are_known_to_both_sides_in_the_order_of_the_sender() -> None:
    assert sent(FITS) == {
        (0, 1): [Message(0, False, 0), Message(0, False, 1)],
        (1, 0): [Message(0, True, 0), Message(0, True, 1)],
    }
    assert sent(replace(FITS, wires=(replace(WIRE, gradient=False),))) == {
        (0, 1): [Message(0, False, 0), Message(0, False, 1)]
    }


def test_tables_that_fit_are_taken() -> None:
    check(FITS, OfSize(pp=2, dp=4))


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"axis": "stage"}, "the axis stage has size None, but the table has 2 rows"),
        ({"rows": FITS.rows[:1]}, "the axis pp has size 2, but the table has 1 rows"),
        ({"chains": (Chain(stages=(0,), microbatches=(0, 1)),)}, "a chain has 1 stages, but the model has 2"),
        ({"placement": (0, 1, 1)}, r"3 stages have places, but the chains are of the stages \[0, 1\]"),
        ({"wires": (replace(WIRE, source=1, target=0),)}, "x goes from stage 1 to stage 0 of 2"),
        ({"wires": (replace(WIRE, value="y"),)}, "stage 0 does not give y"),
        ({"rows": ("0F0,0F1,0B0", FITS.rows[1])}, r"stage 0, microbatch 1, \[1, 0, 0, 0\] times"),
        ({"rows": (FITS.rows[0], FITS.rows[1] + ",1B0")}, r"stage 1, microbatch 0, \[1, 1, 1, 1\] times"),
        ({"rows": (FITS.rows[0] + ",1F1", FITS.rows[1])}, r"has 1F1, but runs the stages \(0,\) only"),
        (
            {
                "placement": (0, 1, 1, 0),
                "chains": (*FITS.chains, Chain(stages=(3, 2), microbatches=(2,))),
            },
            r"would hold a part of the model twice: stages \(0, 3\)",
        ),
    ],
)
def test_tables_that_do_not_fit_are_refused(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        check(replace(FITS, **wrong), OfSize(pp=2))


@pytest.mark.parametrize(
    ("wrong", "schedule", "text"),
    [
        ({}, "ScheduleZeroBubble", "it has no ScheduleZeroBubble"),
        ({}, "ScheduleDualPipeV", ""),
        ({}, "Schedule1F1B", ""),
        ({"placement": (1, 0)}, "Schedule1F1B", r"Schedule1F1B lays stages out as \[0, 1\], not \[1, 0\]"),
        ({"rows": FITS.rows[:1]}, "Schedule1F1B", "Schedule1F1B runs one stage on each rank, not 2 on 1"),
        ({"wires": (replace(WIRE, target=2),)}, "Schedule1F1B", "x goes from stage 0 to stage 2"),
        ({"chains": FITS.chains * 2}, "Schedule1F1B", "it has one chain of stages, not 2"),
    ],
)
def test_what_torch_does_not_run_is_refused(wrong: dict[str, Any], schedule: str, text: str) -> None:
    pipeline = replace(FITS, **wrong)
    if not text:
        by_torch(pipeline, schedule)
        return
    with pytest.raises(ValueError, match=text):
        by_torch(pipeline, schedule)


def test_groups_that_nobody_named_are_an_error_and_not_a_deadlock() -> None:
    mesh = Mesh({"pp": 1})
    mesh.make_groups([], [])
    with pytest.raises(RuntimeError, match="communicate over pp, for which no group was made at the start"):
        mesh.group(("pp",))
