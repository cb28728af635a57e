"""What the collectives of a bundle in the native form are held to.

Over the axis of tensor parallelism and between stages, they are the plan's, one by one. Over the axes of the samples
torch puts what the plan moves for single parameters together, module by module, and gathers some that backward would
not need; the results tell whether that is right.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from math import prod

from ..core.assignment import TrainingGraph
from ..core.tensor import DTYPE_BYTES
from ..plan import Plan
from .collectives import Counts, Difference, parts_of, planned
from .job import RankResult
from .messages import between_stages

GROUPED = (
    "Collectives over the axes of the samples were not compared one by one: in the native form torch moves the "
    "parameters of a layer together."
)


def grouped_differences(
    training: TrainingGraph, plan: Plan, results: Mapping[int, RankResult], updates: int
) -> tuple[Difference, ...]:
    """Return what ran over the axis of tensor parallelism or between stages and was not planned, or the other way."""
    samples = {axis for _, _, layout in training.assignment.assemblies[0].inputs for dim in layout.dims for axis in dim}
    tensor = {axis for axis, size in plan.decisions.mesh.axes if size > 1} - samples
    activations = replace(
        training,
        scopes=tuple(
            replace(scope, fanouts=tuple(f for f in scope.fanouts if f.kind != "parameter"), updates=())
            for scope in training.scopes
        ),
    )
    found = []
    for rank, result in results.items():
        ran = Counter({key: n for key, n in Counter(result.collectives).items() if set(key[1]) <= tensor})
        norms = _norms(training, plan, rank, tensor, updates)
        asked = planned(activations, plan, rank, ran=ran - norms, updates=updates)
        # Which stages hold copies of a parameter shows in who reads it.
        copies = between_stages(training, plan, rank, steps=updates or 1)
        copies -= between_stages(activations, plan, rank, steps=updates or 1)
        asked += copies
        expected = norms + Counter({key: n for key, n in asked.items() if set(key[1]) <= tensor})
        for key in sorted((expected - ran) + (ran - expected)):
            found.append(Difference(rank=rank, key=key, ran=ran[key], planned=expected[key]))
    return tuple(found)


def _norms(training: TrainingGraph, plan: Plan, rank: int, tensor: set[str], updates: int) -> Counts:
    """Return the all-reduces of gradients that are partial sums over the axis: those of norms on shards.

    The plan may reduce them over the axes of the samples first or at once; torch reduces them whole, and first.
    """
    counts: Counts = Counter()
    staged = plan.decisions.pipeline is not None
    for scope in (scope for part, _ in parts_of(training, plan, rank) for scope in part.scopes):
        for fanout in scope.fanouts:
            partial = {axis for r in fanout.readers if r.raw for axis in r.raw.partial} & tensor
            if fanout.kind == "parameter" and partial:
                size = DTYPE_BYTES["float64"] * prod(fanout.shape)
                times = 1 if fanout.deferred or staged else plan.decisions.microbatches
                counts["all_reduce", tuple(partial), size, size] += scope.assembly.count * (updates or 1) * times
    return counts
