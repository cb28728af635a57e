"""Pipeline schedules of equal parts, without a plan."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from fastapi import Response

from planner.figures.pipeline import held, passes
from planner.schedules import (
    AUTOMATIC,
    SCHEDULES,
    EqualParts,
    Simulated,
    bubble,
    causes,
    equal_parts,
    trace_events,
    write_csv,
)  # fmt: skip

from ..schemas import Figure, ScheduleAnswer, ScheduleEntry, ScheduleNumbers, ScheduleRequest
from . import api_router

router = api_router("schedules")


@router.get("/schedules")
def schedules() -> list[ScheduleEntry]:
    """Return the schedules that can be asked for."""
    known = [
        ScheduleEntry(name=d.name, summary=d.summary, per_rank=d.per_rank, torch=d.torch, aliases=list(d.aliases))
        for d in SCHEDULES.values()
    ]
    summary = "the best order that can be found for the times and the room"
    return [*known, ScheduleEntry(name=AUTOMATIC, summary=summary, per_rank=0, torch="", aliases=[])]


@router.post("/schedules")
def simulate(wanted: ScheduleRequest) -> ScheduleAnswer:
    """Return when every rank does what, with the bubble and what it keeps; two schedules on one time axis."""
    found = [equal_parts(_asked(wanted))]
    if wanted.against is not None:
        # The second one has as many parts as it needs.
        found.append(equal_parts(replace(_asked(wanted), name=wanted.against, per_rank=0)))
    lines = [each.timeline for each in found]
    return ScheduleAnswer(
        schedules=[_numbers(each) for each in found], passes=Figure(**passes(*lines)),
        held=[Figure(**held(line)) for line in lines],
    )  # fmt: skip


@router.post(
    "/schedules/csv",
    response_class=Response,
    responses={200: {"content": {"text/csv": {}}, "description": "The order"}},
)
def csv(wanted: ScheduleRequest) -> Response:
    """Return the order as PyTorch's CSV, which its pipeline runtime loads."""
    return _download(write_csv(equal_parts(_asked(wanted)).timeline.schedule), "text/csv", "csv", wanted.name)


@router.post(
    "/schedules/trace", response_class=Response, responses={200: {"content": {"application/json": {}}}}
)  # fmt: skip
def trace(wanted: ScheduleRequest) -> Response:
    """Return the timeline as trace events, which Perfetto opens."""
    text = json.dumps(trace_events(equal_parts(_asked(wanted)).timeline))
    return _download(text, "application/json", "trace.json", wanted.name)


def _asked(wanted: ScheduleRequest) -> EqualParts:
    return EqualParts(**wanted.model_dump(exclude={"against"}))


def _numbers(found: Simulated) -> ScheduleNumbers:
    line = found.timeline
    return ScheduleNumbers(
        name=line.schedule.name, makespan=line.makespan, bound=found.bound, bubble=asdict(bubble(line)),
        causes=asdict(causes(line)), kept=[line.peak_memory(rank) for rank in range(line.schedule.ranks)],
        note=found.note,
    )  # fmt: skip


def _download(text: str, media_type: str, ending: str, name: str) -> Response:
    safe = "".join(c for c in name if c.isalnum() or c in "-_") or "schedule"
    return Response(
        text, media_type=media_type, headers={"Content-Disposition": f'attachment; filename="{safe}.{ending}"'}
    )
