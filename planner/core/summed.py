"""How many times the gradients of the mean are those of a plan: 1, or with `sum` the parts that a mean is taken over.

The loss L of a step is the mean over all its valid targets. With `sum` the gradients are n·∇L, n the data ranks times
the microbatches: what adding up the gradients of as many equal parts' own means gives, as frameworks do that leave out
the division (MindSpore's `gradients_mean=False`). A data rank is one of the parts into which samples are cut; axes
that cut anything else make none.
"""

from __future__ import annotations

from .assignment import Assignment
from .plan import Decisions
from .symbol import Polynomial

_BATCH = "B"


def gradient_factor(assignment: Assignment, decisions: Decisions) -> int:
    """Return what the gradients of the mean are multiplied by."""
    if decisions.gradients.reduction == "mean":
        return 1
    return data_ranks(assignment) * decisions.microbatches


def data_ranks(assignment: Assignment) -> int:
    """Return into how many parts the samples of the model's inputs are cut, in the input where they are most."""
    counts = [1]
    for _, meta, layout in assignment.assemblies[0].inputs:
        for size, axes in zip(meta.shape, layout.dims, strict=True):
            if isinstance(size, Polynomial) and any(_BATCH in names for names, _ in size.terms):
                counts.append(assignment.mesh.size_of(axes))
    return max(counts)
