"""The answer of `schedule`: a pipeline's order as a picture in text, with its bubble and memory, or as torch's CSV."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..core.timeline import StageTimes, Timeline
from ..errors import PlannerError, ScheduleError
from ..schedules import SCHEDULES, automatic, bubble, causes, lower_bound, simulate, write_csv
from .table import columns

AUTOMATIC = "automatic"
MAX_ACTIONS = 200_000
"""More are refused: nobody reads them, and they would take long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A pipeline whose parts all cost the same.

    Parameters
    ----------
    per_rank
        Parts of the model on each rank; 0 for what the schedule needs.
    forward, backward_input, backward_weight, send
        Seconds, or any other unit, of what one rank does for a microbatch, all its parts together, and of one message.
    keep
        Microbatches that a rank has room for; 0 for any number. Only the automatic schedule heeds it.
    objective
        What the automatic schedule makes small: `makespan` or `span`.
    """

    name: str
    ranks: int
    microbatches: int
    per_rank: int
    forward: float
    backward_input: float
    backward_weight: float
    send: float
    keep: float
    objective: str = "makespan"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A timeline, with the least that any order could take; `note` says how good an automatic one is."""

    timeline: Timeline
    bound: float
    note: str = ""


def answer(asked: Asked) -> Answer:
    """Return the timeline.

    Raises
    ------
    ScheduleError
        `schedule.unknown`, `schedule.too-large`, or what the schedule refuses.
    """
    if asked.name not in {AUTOMATIC, *SCHEDULES}:
        known = {alias: name for name, definition in SCHEDULES.items() for alias in definition.aliases}
        if asked.name not in known:
            raise ScheduleError(
                "schedule.unknown",
                f"There is no schedule {asked.name!r}.",
                f"Use one of {', '.join([*SCHEDULES, AUTOMATIC])}.",
                subject=asked.name,
            )
        return answer(replace(asked, name=known[asked.name]))
    actions = 3 * asked.ranks * max(1, asked.per_rank) * asked.microbatches
    if actions > MAX_ACTIONS:
        raise ScheduleError(
            "schedule.too-large",
            f"{asked.ranks} ranks with {asked.microbatches} microbatches run {actions:,} actions, "
            f"more than the {MAX_ACTIONS:,} that are drawn.",
            "Use fewer ranks or microbatches: the picture of a few rounds is the same.",
        )
    if asked.name == AUTOMATIC:
        return _automatic(asked)
    schedule = SCHEDULES[asked.name].build(asked.ranks, asked.microbatches, asked.per_rank)
    times = _times(asked, len(schedule.placement), schedule.parts if len(schedule.chains) == 1 else asked.ranks)
    return Answer(timeline=simulate(schedule, times), bound=lower_bound(schedule, times))


def _automatic(asked: Asked) -> Answer:
    """Return the best order on the plain placement, of all that is known and found there."""
    built = []
    for definition in SCHEDULES.values():
        try:
            built.append(definition.build(asked.ranks, asked.microbatches, asked.per_rank or 1))
        except PlannerError:
            continue
    placement = SCHEDULES["looped-bfs"].build(asked.ranks, asked.microbatches, asked.per_rank or 1).placement
    candidates = tuple(s for s in built if s.placement == placement and len(s.chains) == 1)
    times = _times(asked, len(placement), len(placement))
    room = asked.keep or float("inf")
    best = automatic(candidates, times, (room,) * asked.ranks, objective=asked.objective)
    how = "the best order there is" if best.exact else f"at most {best.gap:.1%} above the best order"
    return Answer(timeline=best.timeline, bound=best.bound, note=f"Found from {best.start}; {how}.")


def _times(asked: Asked, stages: int, parts: int) -> tuple[StageTimes, ...]:
    share = asked.ranks / parts
    one = StageTimes(
        forward=asked.forward * share,
        backward_input=asked.backward_input * share,
        backward_weight=asked.backward_weight * share,
        send_forward=asked.send,
        send_backward=asked.send,
        activation=share,
        weight_gradient=share,
    )
    return (one,) * stages


def answer_json(found: Answer) -> dict[str, Any]:
    """Return the answer for programs."""
    line, shares, parts = found.timeline, bubble(found.timeline), causes(found.timeline)
    return {
        "schedule": line.schedule.name,
        "placement": list(line.schedule.placement),
        "microbatches": line.schedule.microbatches,
        "makespan": line.makespan,
        "lower_bound": found.bound,
        "bubble": {"of_total": shares.of_total, "of_useful": shares.of_useful, "of_span": shares.of_span},
        "causes": {name: getattr(parts, name) for name in parts.__slots__},
        "kept": [line.peak_memory(rank) for rank in range(line.schedule.ranks)],
        "orders": [
            [{"actions": [str(a) for a in span.actions], "start": span.start, "stop": span.stop} for span in passes]
            for passes in map(line.compute, range(line.schedule.ranks))
        ],
        "note": found.note,
    }


def answer_text(found: Answer, width: int) -> str:
    """Return the picture and the numbers."""
    line, shares, parts = found.timeline, bubble(found.timeline), causes(found.timeline)
    rows = [
        ("makespan", f"{line.makespan:g}", f"no order takes less than {found.bound:g}"),
        ("bubble", f"{shares.of_total:.1%}", "of all rank time"),
        ("", f"{shares.of_useful:.1%}", "of the useful time"),
        ("", f"{shares.of_span:.1%}", "of the longest span of a rank"),
        *(
            ("" if i else "idle", f"{value:g}", f"by {name}")
            for i, (name, value) in enumerate(
                (n, getattr(parts, n)) for n in parts.__slots__ if n == "ideal" or abs(getattr(parts, n)) > 1e-12
            )
        ),
        (
            "keeps",
            f"{max(line.peak_memory(r) for r in range(line.schedule.ranks)):g}",
            "microbatches on a rank at most",
        ),
    ]
    return "\n".join([*picture(line, width), "", *columns(rows, "<><"), *([found.note] if found.note else [])])


def picture(line: Timeline, width: int) -> list[str]:
    """Return a row a rank: microbatches in order, backward halves and idle time told apart by letters.

    A pass that is wide enough is written with kind and microbatch, `F0`; a narrow one by its kind alone.
    """
    room = max(20, width - 5)
    scale = room / line.makespan if line.makespan else 1.0
    # Whole columns for the shortest pass keep equal passes equally wide, where there is room for them.
    shortest = min((s.stop - s.start for r in range(line.schedule.ranks) for s in line.compute(r)), default=1.0)
    if shortest * scale >= 1:
        scale = int(shortest * scale) / shortest
    rows = []
    for rank in range(line.schedule.ranks):
        text = ["·"] * round(line.makespan * scale)
        for span in line.compute(rank):
            start, stop = round(span.start * scale), round(span.stop * scale)
            label = "".join(f"{a.kind}{a.microbatch}" for a in span.actions)
            letters = "".join(a.kind for a in span.actions)
            shown = label if len(label) < stop - start + (stop - start > 1) else letters
            filled = shown[: stop - start].ljust(stop - start, "─" if len(shown) > 1 else span.actions[0].kind)
            text[start:stop] = filled
        rows.append(f"{rank:>3}  {''.join(text)}")
    return rows


def listing() -> str:
    """Return a line a schedule."""
    rows = [(d.name, {0: "any", 1: "1", 2: "2"}[d.per_rank], d.torch or "-", d.summary) for d in SCHEDULES.values()]
    rows.append((AUTOMATIC, "any", "-", "the best order that can be found for the times, under --keep"))
    return "\n".join(columns([("schedule", "parts", "torch", "what it is"), *rows], "<<<<"))


def csv_text(found: Answer) -> str:
    """Return the order as torch's CSV."""
    return write_csv(found.timeline.schedule).rstrip("\n")
