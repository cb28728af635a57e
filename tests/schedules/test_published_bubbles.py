"""The bubble rates that the Zero Bubble paper computed from profiled stage times; see data/README.md."""

import csv
from pathlib import Path

import pytest

from planner.core.timeline import StageTimes
from planner.schedules import SCHEDULES
from planner.schedules.automatic import automatic
from planner.schedules.measures import bubble
from planner.schedules.simulate import simulate

NAMES = {"1F1B": "1f1b", "1F1B-interleaved": "interleaved-1f1b", "ZB-H1": "zb-h1", "ZB-H2": "zb-h2"}
PARTS = {"ZB-1.5B": 3, "ZB-6.2B": 4, "ZB-14.6B": 3, "ZB-28.3B": 2}
ALL = list(csv.DictReader((Path(__file__).parent / "data/bubble.csv").read_text().splitlines()))
ROWS = [row for row in ALL if row["schedule"] in NAMES]
ROOM = {"ZB-1p": 1, "ZB-2p": 2}
FOUND = [row for row in ALL if row["schedule"] in ROOM]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: f"{r['model']}-{r['microbatches']}-{r['schedule']}")
def test_published(row: dict[str, str]) -> None:
    per_rank = PARTS[row["model"]] if "interleaved" in row["schedule"] else 1
    schedule = SCHEDULES[NAMES[row["schedule"]]].build(int(row["stages"]), int(row["microbatches"]), per_rank)
    one = StageTimes(
        forward=float(row["t_fwd_ms"]) / per_rank,
        backward_input=float(row["t_bwd_input_ms"]) / per_rank,
        backward_weight=float(row["t_bwd_weight_ms"]) / per_rank,
        send_forward=float(row["t_comm_ms"]),
        send_backward=float(row["t_comm_ms"]),
    )
    rate = bubble(simulate(schedule, (one,) * len(schedule.placement))).of_span
    # Interleaved messages of the last rank to the first are timed a little differently there.
    assert rate == pytest.approx(float(row["bubble_rate"]), abs=0.004 if per_rank > 1 else 0.00005)


@pytest.mark.parametrize(
    "row",
    [pytest.param(r, marks=[pytest.mark.slow] if int(r["stages"]) > 8 else []) for r in FOUND],
    ids=lambda r: f"{r['model']}-{r['microbatches']}-{r['schedule']}",
)
def test_published_search(row: dict[str, str]) -> None:
    """The paper's own search, within as many activations as p or 2p microbatches have; ours may be better."""
    ranks, micros = int(row["stages"]), int(row["microbatches"])
    one = StageTimes(
        forward=float(row["t_fwd_ms"]), backward_input=float(row["t_bwd_input_ms"]),
        backward_weight=float(row["t_bwd_weight_ms"]), send_forward=float(row["t_comm_ms"]),
        send_backward=float(row["t_comm_ms"]), activation=1.0, weight_gradient=0.5,
    )  # fmt: skip
    room = float(ROOM[row["schedule"]] * ranks)
    candidates = tuple(SCHEDULES[name].build(ranks, micros) for name in ("1f1b", "zb-h1", "zb-h2"))
    best = automatic(candidates, (one,) * ranks, (room,) * ranks, effort=0, objective="span")
    rate = bubble(best.timeline).of_span
    assert rate == pytest.approx(best.seconds and 1 - best.bound / best.seconds)
    assert float(row["bubble_rate"]) - 0.01 <= rate <= float(row["bubble_rate"]) + 0.01
