"""What every schedule has to hold to: each action once, on the rank of its stage, backward whole or in two halves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..core.schedule import Action, Schedule
from ..errors import Diagnostic


def verify_schedule(schedule: Schedule) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a schedule; empty if nothing is."""
    return tuple(_problems(schedule))


def _problems(schedule: Schedule) -> Iterator[Diagnostic]:
    lengths = {len(chain.stages) for chain in schedule.chains}
    stages = sorted(stage for chain in schedule.chains for stage in chain.stages)
    if len(lengths) != 1 or stages != list(range(len(schedule.placement))):
        yield _error(f"The chains of {schedule.name} do not hold every stage once, equally many each.")
        return
    seen: Counter[tuple[int, str, int]] = Counter()
    for rank, order in enumerate(schedule.orders):
        for action in (action for cell in order for action in cell):
            if not 0 <= action.stage < len(schedule.placement) or schedule.placement[action.stage] != rank:
                yield _error(f"{action} runs on rank {rank}, which does not hold stage {action.stage}.")
                return
            for kind in {"F": "F", "B": "IW"}.get(action.kind, action.kind):
                seen[(action.stage, kind, action.microbatch)] += 1
    wanted = {
        (stage, kind, micro)
        for chain in schedule.chains
        for stage in chain.stages
        for micro in chain.microbatches
        for kind in "FIW"
    }
    for key in sorted(wanted ^ set(seen)):
        yield _error(f"{Action(*key)} {'never runs' if key in wanted else 'runs, but is of no microbatch'}.")
    for key, times in sorted(seen.items()):
        if times > 1:
            yield _error(f"{Action(*key)} runs {times} times.")


def _error(message: str) -> Diagnostic:
    return Diagnostic(code="verify.schedule", severity="error", subject="", message=message, hint="")
