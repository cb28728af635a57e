"""The answer of `schedule`: a pipeline's order as a picture in text, with its bubble and memory, or as torch's CSV."""

from __future__ import annotations

import json
from typing import Any

from ..core.timeline import Timeline
from ..schedules import AUTOMATIC, SCHEDULES, Simulated, bubble, causes, trace_events, write_csv
from .table import columns


def answer_json(found: Simulated) -> dict[str, Any]:
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


def answer_text(found: Simulated, width: int) -> str:
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


def csv_text(found: Simulated) -> str:
    """Return the order as torch's CSV."""
    return write_csv(found.timeline.schedule).rstrip("\n")


def trace_text(found: Simulated) -> str:
    """Return the timeline as trace events."""
    return json.dumps(trace_events(found.timeline))
