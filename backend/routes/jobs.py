"""Jobs with progress: proofs of plans, and imports of models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from importlib.util import find_spec

from starlette.responses import StreamingResponse

from planner import compose
from planner.errors import ProofError

from ..desk import AppDesk, Desk
from ..problems import Refusal
from ..schemas import Job, ProofRequest
from ..task_queue import FINAL
from . import api_router

router = api_router("jobs")

# Seconds between looks at a job, and looks without news until a sign of life.
LOOK_S = 0.1
QUIET = 100


@router.post("/plans/{plan_id}/proofs", status_code=202)
def prove(plan_id: str, desk: AppDesk, wanted: ProofRequest | None = None) -> Job:
    """Start to prove a plan as it is now."""
    if find_spec("torch") is None:
        raise ProofError(
            "proof.torch-missing", "Proving runs the exported code, and PyTorch is not installed.",
            "Start the server with `make run TORCH=1`, or add it with: pip install 'shardwright[torch]'.",
        )  # fmt: skip
    stored = desk.plan(plan_id)
    text = compose.plan_text(desk.evaluated(stored).plan)
    return desk.jobs.add(stored.id, stored.version, text, (wanted or ProofRequest()).ranks)


@router.get("/jobs/{job_id}")
def job(job_id: str, desk: AppDesk) -> Job:
    """Return a job."""
    return _known(desk.job(job_id))


@router.get(
    "/jobs/{job_id}/events", response_class=StreamingResponse, responses={200: {"content": {"text/event-stream": {}}}}
)
async def events(job_id: str, desk: AppDesk) -> StreamingResponse:
    """Stream the states of a job as server-sent events, until it ends."""
    _known(desk.job(job_id))
    return StreamingResponse(
        _states(desk, job_id), media_type="text/event-stream", headers={"Cache-Control": "no-store"}
    )


@router.delete("/jobs/{job_id}")
def cancel(job_id: str, desk: AppDesk) -> Job:
    """Cancel a job; one that has ended stays as it is."""
    return _known(desk.cancel(job_id))


def _known(job: Job | None) -> Job:
    if job is None:
        raise Refusal(404, "http.not-found", "There is no job with this id; jobs end with the server.")
    return job


async def _states(desk: Desk, job_id: str) -> AsyncIterator[str]:
    last, quiet = None, 0
    while (job := desk.job(job_id)) is not None:
        if job is not last:
            yield f"data: {job.model_dump_json()}\n\n"
            last, quiet = job, 0
        elif (quiet := quiet + 1) % QUIET == 0:
            yield ": waiting\n\n"
        if job.state in FINAL:
            return
        await asyncio.sleep(LOOK_S)
