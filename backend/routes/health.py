"""``GET /healthz`` tells that the server is up, and its version."""

from importlib.metadata import version
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

router = APIRouter()


class Health(BaseModel):
    """The answer of a server that is up."""

    status: Literal["ok"]
    version: str


@router.get("/healthz", tags=["health"])
def healthz() -> Health:
    """Say that the server is up."""
    return Health(status="ok", version=version("shardwright"))
