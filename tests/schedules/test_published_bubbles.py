"""The bubble rates that the Zero Bubble paper computed from profiled stage times; see data/README.md."""

import csv
from pathlib import Path

import pytest

from planner.core.timeline import StageTimes
from planner.schedules import SCHEDULES
from planner.schedules.measures import bubble
from planner.schedules.simulate import simulate

NAMES = {"1F1B": "1f1b", "1F1B-interleaved": "interleaved-1f1b", "ZB-H1": "zb-h1", "ZB-H2": "zb-h2"}
PARTS = {"ZB-1.5B": 3, "ZB-6.2B": 4, "ZB-14.6B": 3, "ZB-28.3B": 2}
ROWS = [
    row
    for row in csv.DictReader((Path(__file__).parent / "data/bubble.csv").read_text().splitlines())
    if row["schedule"] in NAMES
]


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
