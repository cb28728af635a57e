"""Learning rates by step are those of torch's schedulers."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
import torch
from torch.optim import lr_scheduler

from planner.exporters.runtime.rate import SCHEDULES, Rate

PEAK, END, STEPS, WARMUP = 0.4, 0.05, 23, 5


def by_torch(schedule: str, warmup: int) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(()))], lr=PEAK)
    left = STEPS - warmup
    after: lr_scheduler.LRScheduler
    match schedule:
        case "constant":
            after = lr_scheduler.ConstantLR(optimizer, factor=1, total_iters=left)
        case "linear":
            after = lr_scheduler.LinearLR(optimizer, start_factor=1, end_factor=END / PEAK, total_iters=left)
        case _:
            after = lr_scheduler.CosineAnnealingLR(optimizer, T_max=left, eta_min=END)
    found = after
    if warmup:
        rise = lr_scheduler.LinearLR(optimizer, start_factor=1 / warmup, total_iters=warmup - 1)
        found = lr_scheduler.SequentialLR(optimizer, [rise, after], milestones=[warmup])
    rates = []
    for _ in range(STEPS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        found.step()
    return rates


@pytest.mark.parametrize("warmup", [0, WARMUP])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.filterwarnings("ignore:The epoch parameter:UserWarning")
def test_every_schedule(schedule: str, warmup: int) -> None:
    rate = Rate(PEAK, STEPS, schedule, warmup, END)
    assert [rate.at(step) for step in range(STEPS)] == pytest.approx(by_torch(schedule, warmup), rel=1e-12)


def test_beyond_the_end_it_stays() -> None:
    assert Rate(PEAK, STEPS, "cosine", WARMUP, END).at(STEPS + 7) == END
    assert Rate(PEAK, 3, "linear", warmup=5).at(4) == PEAK


def test_an_unknown_schedule() -> None:
    with pytest.raises(ValueError, match="there is no schedule 'step'"):
        Rate(PEAK, STEPS, "step").at(0)
