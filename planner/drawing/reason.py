"""What a step of a redistribution is for, in a few words."""

from __future__ import annotations

from ..collectives import COLLECTIVES
from ..core.collective import Step
from ..core.crossing import VIEW, Leg


def leg_reason(leg: Leg) -> str:
    """Return what a leg of a crossing does for the ranks."""
    if leg.step is not None:
        return step_reason(leg.step)
    if leg.kind == VIEW:
        return f"each rank holds the same part, by other {'axes' if leg.source.shape == leg.target.shape else 'dims'}"
    return "each rank gets directly the elements that it needs and lacks: no mesh and shape has both layouts"


def step_reason(step: Step) -> str:
    """Return what a step does for the ranks."""
    over = "·".join(step.axes)
    match step.kind:
        case "all_gather":
            return f"each rank gets the parts of dim {step.dim} that the others along {over} hold"
        case "all_reduce":
            return f"adds up the partial results over {over} on every rank"
        case "reduce_scatter":
            return f"adds up the partial sums over {over} and leaves each rank its part of dim {step.dim}"
        case "all_to_all":
            return f"moves {over} from dim {step.dim} to dim {step.to_dim}"
        case "slice":
            return f"each rank keeps its part of dim {step.dim}, which it holds already"
        case "exchange":
            return "each rank gets directly the boxes that it needs and lacks"
        case kind:
            return COLLECTIVES[kind].summary.rstrip(".")
