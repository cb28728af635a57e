"""How a plan's decision on gradients is kept at the sizes at which it is proven."""

from __future__ import annotations

from dataclasses import replace

from ..core.gradient_decision import GradientDecision
from ..core.graph import ModelGraph
from ..core.tensor import DTYPE_BYTES


def shrunk_gradients(
    decision: GradientDecision, large: ModelGraph, small: ModelGraph, element_bytes: int
) -> GradientDecision:
    """Return the decision for a smaller model in float64: buckets of the same share of it, at about the same places.

    What gradients are compressed to is left out: rounding is no error of the plan, and would hide one.

    Parameters
    ----------
    element_bytes
        Of the larger model's gradients.
    """
    kept = replace(decision, compression="none")
    if kept.largest_bucket:
        share = small.parameter_count * DTYPE_BYTES["float64"] / (large.parameter_count * element_bytes)
        return replace(kept, fusion="size", bucket_bytes=max(1, round(kept.largest_bucket * share)))
    if kept.indices:
        before, after = _parameters(large), _parameters(small)
        places = {min(max(1, position * after // before), after - 1) for position in kept.indices}
        rising = tuple(sorted(place for place in places if place > 0))
        return replace(kept, fusion="index" if rising else "auto", indices=rising)
    return kept


def _parameters(graph: ModelGraph) -> int:
    return sum(count * sum(p.trainable for p in block.parameters) for count, block in graph.counted_blocks)
