"""The shape of an entry in the table `SCHEDULES`: for which pipelines a schedule exists, and each rank's order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..core.schedule import Action, Cell, Chain, Schedule, loop
from ..errors import ScheduleError

Order = Iterable[Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The size of a pipeline: ranks, model parts that each rank holds, microbatches of a step."""

    ranks: int
    per_rank: int
    microbatches: int

    @property
    def parts(self) -> int:
        """Parts that the model is cut into, where every rank holds its own."""
        return self.ranks * self.per_rank


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleDef:
    """One schedule.

    Parameters
    ----------
    source
        The paper or program that it comes from.
    torch
        Name of the class of `torch.distributed.pipelining` that runs the same order; empty if there is none.
    aliases
        Other names that people know it by.
    per_rank
        Parts of the model on each rank: a number, or 0 for any number from 1.
    legal
        Whether it exists for these numbers of ranks and microbatches.
    needs
        What `legal` asks for, in words.
    placement
        Ranks and stages → rank of every stage.
    order
        Pipeline and rank → the rank's cells.
    chains
        Pipeline → its chains.
    """

    name: str
    summary: str
    source: str
    torch: str = ""
    aliases: tuple[str, ...] = ()
    per_rank: int = 1
    legal: Callable[[Pipeline], bool] = lambda _: True
    needs: str = "at least one microbatch"
    placement: Callable[[int, int], tuple[int, ...]] = loop
    order: Callable[[Pipeline, int], Order]
    chains: Callable[[Pipeline], tuple[Chain, ...]] = lambda pipeline: (
        Chain(stages=tuple(range(pipeline.parts)), microbatches=tuple(range(pipeline.microbatches))),
    )

    def build(self, ranks: int, microbatches: int, per_rank: int = 0) -> Schedule:
        """Return the schedule of a pipeline.

        Parameters
        ----------
        per_rank
            Parts of the model on each rank; 0 for what the schedule needs (1 if it takes any number).

        Raises
        ------
        ScheduleError
            `schedule.parts`, `schedule.microbatches`, `schedule.ranks` where it does not exist.
        """
        pipeline = self.check(ranks, microbatches, per_rank)
        chains = self.chains(pipeline)
        return Schedule(
            name=self.name,
            placement=self.placement(ranks, sum(len(chain.stages) for chain in chains)),
            chains=chains,
            orders=tuple(tuple(self.order(pipeline, rank)) for rank in range(ranks)),
        )

    def legal_microbatches(self, ranks: int, per_rank: int, near: int) -> tuple[int, ...]:
        """Return up to four legal numbers of microbatches, the nearest ones."""
        tries = range(1, 2 * near + 8 * ranks * per_rank + 1)
        legal = [m for m in tries if self.legal(Pipeline(ranks=ranks, per_rank=per_rank, microbatches=m))]
        return tuple(sorted(sorted(legal, key=lambda m: abs(m - near))[:4]))

    def check(self, ranks: int, microbatches: int, per_rank: int = 0) -> Pipeline:
        """Return the size of a pipeline for which the schedule exists, or raise what `build` raises."""
        pipeline = Pipeline(ranks=ranks, per_rank=per_rank or self.per_rank or 1, microbatches=microbatches)
        if pipeline.ranks < 1 or pipeline.microbatches < 1:
            raise ScheduleError(
                "schedule.microbatches",
                f"A pipeline of {pipeline.ranks} ranks and {pipeline.microbatches} microbatches runs nothing.",
                "Use at least one of both.",
            )
        if self.per_rank and pipeline.per_rank != self.per_rank:
            raise ScheduleError(
                "schedule.parts",
                f"{self.name} holds {self.per_rank} part{'s' * (self.per_rank > 1)} of the model on each rank, "
                f"not {pipeline.per_rank}.",
                f"Cut the model into {self.per_rank * pipeline.ranks} parts for {pipeline.ranks} ranks.",
                subject=self.name,
            )
        if self.legal(pipeline):
            return pipeline
        legal = self.legal_microbatches(pipeline.ranks, pipeline.per_rank, pipeline.microbatches)
        if not legal:
            raise ScheduleError(
                "schedule.ranks",
                f"{self.name} does not exist for {pipeline.ranks} ranks: it needs {self.needs}.",
                "Use another schedule or number of ranks.",
                subject=self.name,
            )
        raise ScheduleError(
            "schedule.microbatches",
            f"{self.name} on {pipeline.ranks} ranks with {pipeline.per_rank} parts each can't run "
            f"{pipeline.microbatches} microbatches: it needs {self.needs}.",
            f"Use {' or '.join(map(str, legal))} microbatches.",
            subject=self.name,
        )


@dataclass(slots=True)
class Tape:
    """Writes a rank's order: of every stage and kind it takes the next microbatch.

    A weight gradient is written for what has waited longest.
    """

    first: dict[int, int] = field(default_factory=dict)
    cells: list[Cell] = field(default_factory=list)
    _next: Counter[tuple[int, str]] = field(default_factory=Counter)
    _waiting: list[tuple[int, int]] = field(default_factory=list)

    def run(self, *passes: tuple[int, str], times: int = 1) -> None:
        """Write passes (stage, kind) one after the other, the whole `times` over."""
        for _ in range(times):
            self.cells += [(self._take(stage, kind),) for stage, kind in passes]

    def weights(self, times: int = 1, stage: int = -1) -> None:
        """Write the oldest weight gradients that wait (of one stage, if given), as many as there are up to `times`."""
        for _ in range(times):
            found = next((one for one in self._waiting if stage in (-1, one[0])), None)
            if found is None:
                return
            self._waiting.remove(found)
            self.cells.append((Action(found[0], "W", found[1]),))

    def together(self, forward: int, backward: int) -> None:
        """Write a forward and a backward that run at the same time."""
        self.cells.append((self._take(forward, "F"), self._take(backward, "B")))

    @property
    def waiting(self) -> int:
        """Number of weight gradients that wait."""
        return len(self._waiting)

    def _take(self, stage: int, kind: str) -> Action:
        key = (stage, "F" if kind == "F" else "B")
        microbatch = self._next[key] + self.first.get(stage, 0)
        self._next[key] += 1
        if kind == "I":
            self._waiting.append((stage, microbatch))
        return Action(stage, kind, microbatch)


def cells(actions: Iterable[Action]) -> Order:
    """Return each action as a cell of its own."""
    return ((action,) for action in actions)
