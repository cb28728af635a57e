"""The collectives that a plan's training step is to execute, and how those that ran differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from ..collectives import COLLECTIVES
from ..collectives.compressed import passed
from ..core.assignment import TrainingGraph
from ..core.collective import Redistribution
from ..core.portion import portion
from ..core.tensor import DTYPE_BYTES
from ..plan import Plan
from .job import RankResult
from .messages import between_stages, held_parts

Key = tuple[str, tuple[str, ...], int, int]
"""A collective: kind, axes, bytes that a rank passes in, bytes that it gets out."""
Counts = Counter[Key]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A collective that a rank executed more or less often than planned."""

    rank: int
    key: Key
    ran: int
    planned: int

    def __str__(self) -> str:
        kind, axes, size, out = self.key
        return (
            f"rank {self.rank}: {kind} over {'·'.join(axes)} of {size} → {out} bytes ran {self.ran} times, "
            f"planned {self.planned}"
        )


def planned(training: TrainingGraph, plan: Plan, rank: int, *, ran: Counts, updates: int = 0) -> Counts:
    """Return the collectives that a rank is to execute in float64, with what it passes in and gets out.

    What the plan has in float32, for more digits than a narrow type has, is passed as that or as float64.

    Parameters
    ----------
    ran
        What the rank executed, which tells these two apart.
    updates
        Number of optimizer steps; 0 for the gradients of one step without an update.
    """
    mesh = plan.decisions.mesh
    counts: Counts = Counter()
    narrow: Counts = Counter()

    def add(moved: Redistribution, dtype: str, times: int) -> None:
        for step in moved.steps:
            if not COLLECTIVES[step.kind].local:
                size = DTYPE_BYTES["float64" if dtype == "compute" else dtype]
                before, after = (size * prod(x.shape_of(step.shape, mesh, rank)) for x in (step.source, step.target))
                found = narrow if dtype == "float32" else counts
                found[step.kind, step.axes, before, after] += times

    for part, microbatches in parts_of(training, plan, rank):
        together = {(m.scope, m.parameter, m.way) for bucket in part.buckets for m in bucket.members}
        counts += _of_buckets(part, plan, rank, steps=updates or 1, microbatches=microbatches)
        for index, scope in enumerate(part.scopes):
            once = scope.assembly.count * (updates or 1)
            for fanout in scope.fanouts:
                for delivery in (*fanout.forward, *fanout.again):
                    add(delivery.redistribution, fanout.meta.dtype, once * microbatches)
                times = once * (1 if fanout.deferred else microbatches)
                for way, delivery in enumerate(fanout.backward):
                    if (index, fanout.value, way) not in together:
                        add(delivery.redistribution, fanout.meta.dtype, times)
            for update in scope.updates if updates else ():
                add(update.gradient, "compute", once)
                add(update.values, "compute", once)
                add(update.master, "compute", scope.assembly.count)
    counts += between_stages(training, plan, rank, steps=updates or 1)
    # The smallest first: what it leaves open is what the next may have been passed as.
    for key, count in sorted(narrow.items()):
        kind, axes, before, after = key
        kept = min(count, max(ran[key] - counts[key], 0))
        counts[key] += kept
        counts[kind, axes, 2 * before, 2 * after] += count - kept
    return +counts


def _of_buckets(training: TrainingGraph, plan: Plan, rank: int, *, steps: int, microbatches: int) -> Counts:
    """Return what the buckets of gradients pass."""
    mesh, compression = plan.decisions.mesh, plan.decisions.gradients.compression
    counts: Counts = Counter()
    for bucket in training.buckets:
        for layers, times in bucket.cuts:
            runs = times * steps * (1 if bucket.deferred else microbatches)
            for call, (kind, axes) in enumerate(bucket.calls):
                elements = bucket.elements(call, layers, mesh, rank)
                for each in passed(kind, mesh.size_of(axes), *elements, DTYPE_BYTES["float64"], compression):
                    counts[each.kind, axes, each.source_bytes, each.target_bytes] += runs
    return counts


def parts_of(training: TrainingGraph, plan: Plan, rank: int) -> Iterator[tuple[TrainingGraph, int]]:
    """Yield what a rank runs, and for how many microbatches: the whole, or each of its stages."""
    if plan.decisions.pipeline is None:
        yield training, plan.decisions.microbatches
        return
    for part, microbatches in held_parts(plan, rank):
        yield portion(training, part), microbatches


def differences_of(
    training: TrainingGraph, plan: Plan, results: Mapping[int, RankResult], updates: int
) -> tuple[Difference, ...]:
    """Return what ran on ranks and was not planned, or the other way round; `updates` as for `planned`."""
    found = []
    for rank, result in results.items():
        ran = Counter(result.collectives)
        expected = planned(training, plan, rank, ran=ran, updates=updates)
        for key in sorted((expected - ran) + (ran - expected)):
            found.append(Difference(rank=rank, key=key, ran=ran[key], planned=expected[key]))
    return tuple(found)
