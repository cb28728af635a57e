"""Where to cut a model into stages: the cut with the least work on the busiest rank, memory caps kept.

A pipeline goes in step with its busiest rank, so that rank's work for a microbatch, over all its stages, is what is
minimised; among the best cuts, the one whose largest stage is smallest. Both by HiGHS, exactly: layers that cost the
same are one group, of which each stage takes a number, and a stage may take from a group only when the groups before
it are used up:

```text
x[g, s] ≤ count[g] · done[g-1, s],   Σ_{s' ≤ s} x[g, s'] ≥ count[g] · done[g, s]
```

So the problem grows with the number of groups times stages, not with the depth of the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, groupby, pairwise

import highspy

from ..core.timeline import StageTimes
from ..errors import ScheduleError

TIME_LIMIT = 5.0
NEGLIGIBLE = 1e-9
"""Part of a rank's memory that a layer has to need to be counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A cut of a model.

    Parameters
    ----------
    cuts
        First layer of every stage, and the number of layers at the end.
    stages
        What each stage costs.
    rank_seconds
        Work of each rank for one microbatch.
    bound
        Seconds that the busiest rank can't go below; the solver's proof.
    """

    cuts: tuple[int, ...]
    stages: tuple[StageTimes, ...]
    rank_seconds: tuple[float, ...]
    bound: float

    @property
    def gap(self) -> float:
        """How much more the busiest rank does than the bound, as a share of it."""
        return max(self.rank_seconds) / self.bound - 1 if self.bound else 0.0


def join(layers: Sequence[StageTimes]) -> StageTimes:
    """Return the cost of layers one after the other; messages are those of the last and the first."""
    total = StageTimes(**{f.name: sum(getattr(layer, f.name) for layer in layers) for f in fields(StageTimes)})
    return replace(total, send_forward=layers[-1].send_forward, send_backward=layers[0].send_backward)


def cut(layers: tuple[StageTimes, ...], cuts: tuple[int, ...]) -> tuple[StageTimes, ...]:
    """Return the cost of every stage of a cut.

    Raises
    ------
    ScheduleError
        `schedule.cut` where a stage is empty, runs backward, or layers are left out.
    """
    if not cuts or cuts[0] != 0 or cuts[-1] != len(layers):
        raise ScheduleError(
            "schedule.cut",
            f"The stages begin at {', '.join(map(str, cuts))} and leave out some of the {len(layers)} layers.",
            f"Begin with 0 and end with {len(layers)}.",
        )
    for stage, (start, stop) in enumerate(pairwise(cuts)):
        if stop <= start:
            what = "is empty" if stop == start else f"ends at layer {stop}, before it begins"
            raise ScheduleError(
                "schedule.cut",
                f"Stage {stage}, from layer {start}, {what}.",
                f"Give each of the {len(cuts) - 1} stages at least one of the {len(layers)} layers, in order.",
            )
    return tuple(join(layers[start:stop]) for start, stop in pairwise(cuts))


def partition(
    layers: tuple[StageTimes, ...],
    placement: tuple[int, ...],
    caps: tuple[float, ...] = (),
    in_flight: tuple[int, ...] = (),
) -> Partition:
    """Return the best cut.

    Parameters
    ----------
    layers
        What each layer costs.
    placement
        Rank of every stage.
    caps
        Bytes that each rank may hold; none if empty.
    in_flight
        Microbatches that each stage keeps at once at most, for the memory; 1 each if empty.

    Raises
    ------
    ScheduleError
        `schedule.stages` for more stages than layers, `schedule.memory` where no cut fits the caps.
    """
    if len(placement) > len(layers):
        raise ScheduleError(
            "schedule.stages",
            f"{len(layers)} layers can't fill {len(placement)} stages.",
            f"Use at most {len(layers)} stages.",
        )
    keep = in_flight or (1,) * len(placement)
    groups = [tuple(group) for _, group in groupby(layers)]
    first = _Program(groups, placement, caps, keep)
    if not first.solve(first.busiest):
        raise ScheduleError(
            "schedule.memory",
            f"No cut of {len(layers)} layers into {len(placement)} stages keeps each rank within its memory.",
            "Use more ranks, smaller microbatches or recompute.",
        )
    best = first.counts()
    cuts = _cuts(best)
    busiest, bound = max(_rank_seconds(cut(layers, cuts), placement)), first.bound
    second = _Program(groups, placement, caps, keep)
    second.limit(busiest)
    if second.solve(second.largest):
        cuts = _cuts(second.counts())
    stages = cut(layers, cuts)
    return Partition(cuts=cuts, stages=stages, rank_seconds=_rank_seconds(stages, placement), bound=min(bound, busiest))


def _rank_seconds(stages: tuple[StageTimes, ...], placement: tuple[int, ...]) -> tuple[float, ...]:
    seconds = [0.0] * (max(placement) + 1)
    for stage, rank in zip(stages, placement, strict=True):
        seconds[rank] += stage.work + stage.recompute
    return tuple(seconds)


def _cuts(counts: list[int]) -> tuple[int, ...]:
    return tuple(accumulate(counts, initial=0))


class _Program:
    """The integer program, with its two objectives as variables."""

    def __init__(
        self,
        groups: list[tuple[StageTimes, ...]],
        placement: tuple[int, ...],
        caps: tuple[float, ...],
        keep: tuple[int, ...],
    ) -> None:
        self.highs = highspy.Highs()  # type: ignore[no-untyped-call]
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("time_limit", TIME_LIMIT)
        self.highs.setOptionValue("mip_rel_gap", 0.0)
        stages, highs = range(len(placement)), self.highs
        # Costs relative to the whole, so that the solver's tolerances mean the same for any model.
        whole = sum(_work(layer) for group in groups for layer in group) or 1.0
        self._whole = whole
        costs = [_work(group[0]) / whole for group in groups]
        self.busiest, self.largest = highs.addVariable(lb=0.0), highs.addVariable(lb=0.0)
        self.taken = [[highs.addIntegral(lb=0, ub=len(group)) for _ in stages] for group in groups]
        done = [[highs.addBinary() for _ in stages] for _ in groups]
        for g, group in enumerate(groups):
            highs.addConstr(sum(self.taken[g]) == len(group))
            for s in stages:
                highs.addConstr(sum(self.taken[g][: s + 1]) >= len(group) * done[g][s])
                if g:
                    highs.addConstr(self.taken[g][s] <= len(group) * done[g - 1][s])
        for s in stages:
            column = [self.taken[g][s] for g in range(len(groups))]
            highs.addConstr(sum(column) >= 1)
            highs.addConstr(sum(c * x for c, x in zip(costs, column, strict=True)) <= self.largest)
        for rank in range(max(placement) + 1):
            own = [(g, s) for g in range(len(groups)) for s in stages if placement[s] == rank]
            highs.addConstr(sum(costs[g] * self.taken[g][s] for g, s in own) <= self.busiest)
            if caps:
                held = [(groups[g][0].resident + keep[s] * groups[g][0].activation) / caps[rank] for g, s in own]
                # All of a small model fits anywhere, and the solver takes no coefficient that is nearly nothing.
                if sum(h * len(groups[g]) for h, (g, _) in zip(held, own, strict=True)) > 1.0:
                    row = (h * self.taken[g][s] for h, (g, s) in zip(held, own, strict=True) if h > NEGLIGIBLE)
                    highs.addConstr(sum(row) <= 1.0)

    def limit(self, seconds: float) -> None:
        """Allow only cuts whose busiest rank works no longer."""
        self.highs.addConstr(self.busiest <= seconds / self._whole * (1 + 1e-9))

    def solve(self, objective: highspy.highs.highs_var) -> bool:
        """Minimise one of the two; return whether there is any solution."""
        self.highs.minimize(objective)
        return bool(self.highs.getInfo().primal_solution_status == 2)

    @property
    def bound(self) -> float:
        """What is proven of the objective, in seconds."""
        return float(self.highs.getInfo().mip_dual_bound) * self._whole

    def counts(self) -> list[int]:
        """Return the number of layers of every stage."""
        return [round(sum(self.highs.val(row[s]) for row in self.taken)) for s in range(len(self.taken[0]))]


def _work(layer: StageTimes) -> float:
    return layer.work + layer.recompute
