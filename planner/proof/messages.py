"""What passes between the stages of a pipeline, as a rank is to execute it in float64."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..compose import evaluated
from ..core.assignment import Scope, TrainingGraph
from ..core.portion import portion, stage_of_items, stage_of_values
from ..core.schedule import Schedule
from ..core.stage import RECEIVE, SEND_RECV, plain
from ..core.tensor import DTYPE_BYTES
from ..plan import Plan

FLOAT64 = DTYPE_BYTES["float64"]


def held_parts(plan: Plan, rank: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of the model that a rank runs, and for how many microbatches each."""
    schedule, place = _schedule(plan), _place(plan, rank)
    for chain in schedule.chains:
        for part, stage in enumerate(chain.stages):
            if schedule.placement[stage] == place:
                yield part, len(chain.microbatches)


def between_stages(
    training: TrainingGraph, plan: Plan, rank: int, *, steps: int
) -> Counter[tuple[str, tuple[str, ...], int, int]]:
    """Return the messages that a rank sends, and the reductions among those that hold copies of a parameter.

    Parameters
    ----------
    steps
        Number of optimizer steps.
    """
    counts: Counter[tuple[str, tuple[str, ...], int, int]] = Counter()
    pipeline = plan.decisions.pipeline
    if pipeline is None:
        return counts
    axes, schedule, place = (pipeline.axis,), _schedule(plan), _place(plan, rank)
    for source, target, size, back in _wires(training, plan, rank):
        for chain in schedule.chains:
            ends = [schedule.placement[chain.stages[part]] for part in (source, target)]
            for sender, reader in (ends, reversed(ends)) if back else (ends,):
                if sender == place != reader:
                    counts[SEND_RECV, axes, size, size] += steps * len(chain.microbatches)
    for name, owners in _owners(training, schedule).items():
        if place in owners and len(owners) > 1:
            counts["all_reduce", axes, *(_gradient_bytes(training, name, plan, rank),) * 2] += steps * _times(
                training, name
            )
    # The loss is told to all stages.
    counts["all_reduce", axes, FLOAT64, FLOAT64] += steps
    return counts


def _schedule(plan: Plan) -> Schedule:
    schedule = evaluated(plan).schedule
    assert schedule is not None
    return schedule


def _place(plan: Plan, rank: int) -> int:
    assert plan.decisions.pipeline is not None
    return plan.decisions.mesh.coordinates(rank)[plan.decisions.pipeline.axis]


def _wires(training: TrainingGraph, plan: Plan, rank: int) -> Iterator[tuple[int, int, int, bool]]:
    """Yield source and target part, bytes of a message from or to a rank, and whether a gradient comes back."""
    of_item, made, root = stage_of_items(training), stage_of_values(training), training.scopes[0]
    wanted = {f.value for f in root.fanouts if f.gradient is not None}
    for assigned in root.assembly.nodes:
        if assigned.node.op != RECEIVE:
            continue
        meta, layout = assigned.node.results[0].meta, assigned.results[0]
        elements = 1
        for size in layout.shape_of(meta.concrete(training.assignment.symbols), plan.decisions.mesh, rank):
            elements *= size
        each = DTYPE_BYTES["float64" if meta.dtype in {"compute", "float32"} else meta.dtype]
        name = assigned.node.results[0].name
        yield made[assigned.node.operands[0]], of_item[assigned.node.name], elements * each, name in wanted


def _owners(training: TrainingGraph, schedule: Schedule) -> dict[str, set[int]]:
    """Return parameter, with the token of its layers → the places along the axis that hold it."""
    found: dict[str, set[int]] = {}
    for chain in schedule.chains:
        for part, stage in enumerate(chain.stages):
            for scope in portion(training, part).scopes:
                for placed in scope.assembly.parameters:
                    if placed.parameter.trainable:
                        found.setdefault(plain(placed.parameter.name), set()).add(schedule.placement[stage])
    return found


def _scope_of(training: TrainingGraph, name: str) -> Scope:
    return next(s for s in training.scopes if s.assembly.parameter(name) is not None)


def _times(training: TrainingGraph, name: str) -> int:
    return _scope_of(training, name).assembly.count


def _gradient_bytes(training: TrainingGraph, name: str, plan: Plan, rank: int) -> int:
    placed = _scope_of(training, name).assembly.parameter(name)
    assert placed is not None
    elements = FLOAT64
    shape = placed.parameter.meta.concrete(training.assignment.symbols)
    for size in placed.gradient.shape_of(shape, plan.decisions.mesh, rank):
        elements *= size
    return elements
