"""``GET /healthz`` tells whether the server is up and its database answers."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter
from sqlalchemy.exc import SQLAlchemyError

from ..desk import AppDesk
from ..problems import Refusal
from ..schemas import Health, Problem

router = APIRouter(tags=["health"])


@router.get("/healthz", responses={503: {"model": Problem, "content": {"application/problem+json": {}}}})
def healthz(desk: AppDesk) -> Health:
    """Say whether the server is up."""
    try:
        desk.database.check()
    except SQLAlchemyError:
        raise Refusal(503, "http.database", "The database does not answer.", "Look at the server's log.") from None
    return Health(status="ok", version=version("shardwright"), database="ok")
