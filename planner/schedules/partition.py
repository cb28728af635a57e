"""Where to cut a model into stages: the cut with the least work on the busiest rank, memory caps kept.

A pipeline goes in step with its busiest rank, so that rank's work for a microbatch, over all its stages, is what is
minimised; among the best cuts, the one whose largest stage is smallest. Both by HiGHS, exactly: layers that cost the
same are one group, of which each stage takes a number, and a stage may take from a group only when the groups before
it are used up:

```text
x[g, s] ≤ count[g] · done[g-1, s],   Σ_{s' ≤ s} x[g, s'] ≥ count[g] · done[g, s]
```

So the problem grows with the number of groups times stages, not with the depth of the model. Neither is solved
where filling the stages in order already meets a bound that no cut goes below, as with many equal layers.
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
    bound, cuts = _least(groups, max(placement) + 1), _filled(layers, groups, len(placement))
    full = cut(layers, cuts)
    busiest = max(_rank_seconds(full, placement))
    if busiest > bound * (1 + 1e-12) or not _fits(full, placement, caps, keep):
        first = None if _too_much(layers, caps, keep) else _Program(groups, placement, caps, keep)
        if first is None or not first.solve(first.busiest):
            raise ScheduleError(
                "schedule.memory",
                f"No cut of {len(layers)} layers into {len(placement)} stages keeps each rank within its memory.",
                "Use more ranks, smaller microbatches or recompute.",
            )
        cuts, bound = _cuts(first.counts()), first.bound
        full = cut(layers, cuts)
        busiest = max(_rank_seconds(full, placement))
    if max(map(_work, full)) > _room(groups, len(placement)):
        second = _Program(groups, placement, caps, keep)
        second.limit(busiest)
        if second.solve(second.largest):
            cuts = _cuts(second.counts())
    stages = cut(layers, cuts)
    return Partition(cuts=cuts, stages=stages, rank_seconds=_rank_seconds(stages, placement), bound=min(bound, busiest))


def _least(groups: Sequence[tuple[StageTimes, ...]], ranks: int) -> float:
    """Return seconds that the busiest rank can't go below: the mean, or those of the fullest rank of equal layers."""
    mean = sum(_work(layer) for group in groups for layer in group) / ranks
    return max(mean, *(-(-len(group) // ranks) * _work(group[0]) for group in groups))


def _filled(layers: Sequence[StageTimes], groups: Sequence[tuple[StageTimes, ...]], stages: int) -> tuple[int, ...]:
    """Return the cut that fills one stage after the other up to what the largest has at least."""
    room = _room(groups, stages)
    cuts = [0]
    for after in range(stages - 1, 0, -1):
        stop, taken = cuts[-1] + 1, _work(layers[cuts[-1]])
        while len(layers) - stop > after and taken + _work(layers[stop]) <= room:
            stop, taken = stop + 1, taken + _work(layers[stop])
        cuts.append(stop)
    return (*cuts, len(layers))


def _room(groups: Sequence[tuple[StageTimes, ...]], stages: int) -> float:
    """Return what the largest stage has at least, and the error of a sum."""
    return max(-(-len(group) // stages) * _work(group[0]) for group in groups) * (1 + 1e-12)


def _fits(
    stages: Sequence[StageTimes], placement: tuple[int, ...], caps: tuple[float, ...], keep: tuple[int, ...]
) -> bool:
    """Return whether a cut keeps each rank within its memory."""
    held = [0.0] * (max(placement) + 1)
    for stage, rank, count in zip(stages, placement, keep, strict=True):
        held[rank] += stage.resident + count * stage.activation
    return not caps or all(size <= cap for size, cap in zip(held, caps, strict=True))


def _too_much(layers: Sequence[StageTimes], caps: tuple[float, ...], keep: tuple[int, ...]) -> bool:
    """Return whether all layers together hold more than all ranks may, beyond the solver's tolerance."""
    held = sum(layer.resident + min(keep) * layer.activation for layer in layers)
    return bool(caps) and held > sum(caps) * (1 + 1e-6)


def _rank_seconds(stages: tuple[StageTimes, ...], placement: tuple[int, ...]) -> tuple[float, ...]:
    seconds = [0.0] * (max(placement) + 1)
    for stage, rank in zip(stages, placement, strict=True):
        seconds[rank] += stage.work + stage.recompute
    return tuple(seconds)


def _cuts(counts: list[int]) -> tuple[int, ...]:
    return tuple(accumulate(counts, initial=0))


class _Program:
    """The integer program, with its two objectives as variables 0 and 1.

    It is handed over as arrays: one by one, its variables and rows would take longer than most are solved in.
    """

    busiest, largest = 0, 1

    def __init__(
        self,
        groups: list[tuple[StageTimes, ...]],
        placement: tuple[int, ...],
        caps: tuple[float, ...],
        keep: tuple[int, ...],
    ) -> None:
        # Costs relative to the whole, so that the solver's tolerances mean the same for any model.
        self._whole = sum(_work(layer) for group in groups for layer in group) or 1.0
        self._shape = len(groups), len(placement)
        self._rows: list[tuple[float, float, list[tuple[int, float]]]] = []
        self._hold_order(groups)
        self._hold_costs([_work(group[0]) / self._whole for group in groups], groups, placement, caps, keep)
        self.highs = highspy.Highs()  # type: ignore[no-untyped-call]
        self.highs.setOptionValue("output_flag", False)
        self.highs.setOptionValue("time_limit", TIME_LIMIT)
        self.highs.setOptionValue("mip_rel_gap", 0.0)
        self.highs.passModel(self._model([len(group) for group in groups]))

    def _taken(self, group: int, stage: int) -> int:
        """Return the variable that says how many layers of a group a stage takes."""
        return 2 + group * self._shape[1] + stage

    def _done(self, group: int, stage: int) -> int:
        """Return the variable that says whether the stages up to this one use a group up."""
        return self._taken(self._shape[0] + group, stage)

    def _hold_order(self, groups: list[tuple[StageTimes, ...]]) -> None:
        stages = range(self._shape[1])
        for g, group in enumerate(groups):
            size = len(group)
            self._rows.append((size, size, [(self._taken(g, s), 1.0) for s in stages]))
            for s in stages:
                so_far = [(self._taken(g, t), 1.0) for t in stages[: s + 1]]
                self._rows.append((0.0, highspy.kHighsInf, [*so_far, (self._done(g, s), -float(size))]))
                if g:
                    pair = [(self._taken(g, s), 1.0), (self._done(g - 1, s), -float(size))]
                    self._rows.append((-highspy.kHighsInf, 0.0, pair))

    def _hold_costs(
        self, costs: list[float], groups: list[tuple[StageTimes, ...]], placement: tuple[int, ...],
        caps: tuple[float, ...], keep: tuple[int, ...],
    ) -> None:  # fmt: skip
        count, stages = self._shape
        for s in range(stages):
            column = [self._taken(g, s) for g in range(count)]
            self._rows.append((1.0, highspy.kHighsInf, [(x, 1.0) for x in column]))
            spent = [(self.largest, -1.0), *zip(column, costs, strict=True)]
            self._rows.append((-highspy.kHighsInf, 0.0, spent))
        for rank in range(max(placement) + 1):
            own = [(g, s) for g in range(count) for s in range(stages) if placement[s] == rank]
            spent = [(self.busiest, -1.0), *((self._taken(g, s), costs[g]) for g, s in own)]
            self._rows.append((-highspy.kHighsInf, 0.0, spent))
            if caps:
                held = [(groups[g][0].resident + keep[s] * groups[g][0].activation) / caps[rank] for g, s in own]
                # All of a small model fits anywhere, and the solver takes no coefficient that is nearly nothing.
                if sum(h * len(groups[g]) for h, (g, _) in zip(held, own, strict=True)) > 1.0:
                    sizes = [(self._taken(g, s), h) for h, (g, s) in zip(held, own, strict=True) if h > NEGLIGIBLE]
                    self._rows.append((-highspy.kHighsInf, 1.0, sizes))

    def _model(self, sizes: list[int]) -> highspy.HighsLp:
        stages, continuous = self._shape[1], 2
        upper = [float(size) for size in sizes for _ in range(stages)] + [1.0] * len(sizes) * stages
        rows = [sorted(entries) for _, _, entries in self._rows]
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = continuous + len(upper), len(rows)
        model.col_cost_ = [0.0] * model.num_col_
        model.col_lower_ = [0.0] * model.num_col_
        model.col_upper_ = [highspy.kHighsInf] * continuous + upper
        model.row_lower_ = [low for low, _, _ in self._rows]
        model.row_upper_ = [high for _, high, _ in self._rows]
        model.integrality_ = [highspy.HighsVarType.kContinuous] * continuous + [highspy.HighsVarType.kInteger] * len(
            upper
        )
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = [0, *accumulate(len(row) for row in rows)]
        model.a_matrix_.index_ = [index for row in rows for index, _ in row]
        model.a_matrix_.value_ = [value for row in rows for _, value in row]
        return model

    def limit(self, seconds: float) -> None:
        """Allow only cuts whose busiest rank works no longer."""
        self.highs.addRow(-highspy.kHighsInf, seconds / self._whole * (1 + 1e-9), 1, [self.busiest], [1.0])

    def solve(self, objective: int) -> bool:
        """Minimise one of the two; return whether there is any solution."""
        self.highs.changeColCost(objective, 1.0)
        self.highs.run()
        return bool(self.highs.getInfo().primal_solution_status == 2)

    @property
    def bound(self) -> float:
        """What is proven of the objective, in seconds."""
        return float(self.highs.getInfo().mip_dual_bound) * self._whole

    def counts(self) -> list[int]:
        """Return the number of layers of every stage."""
        (groups, stages), values = self._shape, self.highs.getSolution().col_value
        return [round(sum(values[self._taken(g, s)] for g in range(groups))) for s in range(stages)]


def _work(layer: StageTimes) -> float:
    return layer.work + layer.recompute
