"""Why each step of a redistribution is there, in one sentence that follows from its layouts and the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..core.collective import Redistribution, Step, further
from ..core.layout import Layout
from ..core.mesh import Axes


def reasons(moved: Redistribution) -> tuple[str, ...]:
    """Return a sentence for every step, without its full stop."""
    return tuple(_REASONS[step.kind](step, moved.target) for step in moved.steps)


def _slice(step: Step, target: Layout) -> str:
    over = _names(step.axes)
    if set(step.axes) <= set(target.dims[step.dim]):
        return f"dim {step.dim} is to be sharded over {over}: each rank keeps its part of what it holds already"
    return f"the ranks along {over} hold the same: each goes on with its part of dim {step.dim}, so that less is moved"


def _all_gather(step: Step, target: Layout) -> str:
    said = []
    for dim, axes in _taken(step):
        wanted = [axis for axis in axes if axis in target.used]
        if not wanted:
            said.append(f"dim {dim} is to be whole along {_names(axes)}")
        else:
            said.append(f"dim {dim} gives up {_names(axes)}, of which {_wants(wanted, target)}")
    return f"{', '.join(said)}: each rank gets the parts that the others hold"


def _all_to_all(step: Step, target: Layout) -> str:
    losing = " and ".join(f"dim {dim} gives up {_names(axes)}" for dim, axes in _taken(step))
    gaining = []
    for dim, axes in ((step.to_dim, step.axes),) if step.to_dim >= 0 else step.given:
        needs = set(axes) <= set(target.dims[dim])
        gaining.append(f"dim {dim} {'needs' if needs else 'holds for the next steps'}")
    return f"{losing}, which {' and '.join(gaining)}: moved in one all-to-all"


def _reduce_scatter(step: Step, target: Layout) -> str:
    given = ((step.dim, step.axes),) if step.dim >= 0 else step.given
    parts = " and ".join(f"dim {dim}" for dim, _ in given)
    if all(set(axes) <= set(target.dims[dim]) for dim, axes in given):
        return f"{_partial(step)} over {_names(step.axes)} are to be reduced and {parts} sharded over it: one does both"
    return f"{_partial(step)} over {_names(step.axes)} are to be reduced: each rank does its part of {parts}"


def _all_reduce(step: Step, target: Layout) -> str:
    return f"{_partial(step)} over {_names(step.axes)} are to be reduced, and every rank needs the result"


def _permute(step: Step, target: Layout) -> str:
    return f"the parts stay the same but belong to other ranks along {_names(step.axes)}: each passes its whole part on"


def _exchange(step: Step, target: Layout) -> str:
    return (
        f"the parts are cut in another way along {_names(step.axes)}: each rank gets directly the boxes that it needs "
        "and lacks"
    )


def _sum_exchange(step: Step, target: Layout) -> str:
    return (
        f"summands along {_names(step.axes)} go straight to who needs their sum: parts on another way would be larger "
        "than source and target together"
    )


def _pad(step: Step, target: Layout) -> str:
    aim = "are to be" if set(step.axes) <= set(target.partial) else "may be"
    return f"values {aim} partial sums over {_names(step.axes)}: each rank puts its part of dim {step.dim} among zeros"


def _zero(step: Step, target: Layout) -> str:
    over = _names(step.axes)
    return f"values are to be partial sums over {over}: the first rank along it keeps them, the others hold zeros"


_REASONS: Mapping[str, Callable[[Step, Layout], str]] = MappingProxyType(
    {
        "all_gather": _all_gather,
        "all_reduce": _all_reduce,
        "all_to_all": _all_to_all,
        "exchange": _exchange,
        "pad": _pad,
        "permute": _permute,
        "reduce_scatter": _reduce_scatter,
        "slice": _slice,
        "sum_exchange": _sum_exchange,
        "zero": _zero,
    }
)


def _taken(step: Step) -> tuple[tuple[int, Axes], ...]:
    return ((step.dim, step.axes),) if step.dim >= 0 else further(step.target, step.source)


def _wants(axes: list[str], target: Layout) -> str:
    """Say what the target needs axes for."""
    said = []
    for axis in axes:
        dim = next((dim for dim, held in enumerate(target.dims) if axis in held), None)
        said.append(f"partial sums need {axis}" if dim is None else f"dim {dim} needs {axis}")
    return " and ".join(said)


def _partial(step: Step) -> str:
    return "partial sums" if step.source.reduce == "sum" else f"partial results ({step.source.reduce})"


def _names(axes: Axes) -> str:
    return "·".join(axes)
