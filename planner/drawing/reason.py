"""What a step of a redistribution is for, in a few words."""

from __future__ import annotations

from ..collectives import COLLECTIVES
from ..core.collective import Part, Step
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
    taken, given = _dims(step.taken), _dims(step.given)
    match step.kind:
        case "all_gather" if taken:
            return f"each rank gets the parts of {taken} that the others along {over} hold"
        case "all_reduce":
            return f"adds up the partial results over {over} on every rank"
        case "reduce_scatter" if given:
            return f"adds up the partial sums over {over} and leaves each rank its part of {given}"
        case "all_to_all" if taken and given:
            return f"moves {over} from {taken} to {given}"
        case "slice" if given:
            return f"each rank keeps its part of {given}, which it holds already"
        case "exchange":
            return "each rank gets directly the boxes that it needs and lacks"
        case "sum_exchange":
            return "each rank gets the summands that it lacks of what it wants, and adds them"
        case kind:
            return COLLECTIVES[kind].summary.rstrip(".")


def _dims(parts: tuple[Part, ...]) -> str:
    dims = [str(dim) for dim, _ in parts]
    return f"dim {dims[0]}" if len(dims) == 1 else f"dims {', '.join(dims)}" if dims else ""
