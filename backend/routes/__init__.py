"""One file a resource; each handler parses, calls ``planner`` and answers."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from ..schemas import Problem


def api_router(tag: str) -> APIRouter:
    """Return a router under `/api/v1` whose description says what errors look like."""
    problem: dict[str, Any] = {"model": Problem, "content": {"application/problem+json": {}}}
    return APIRouter(
        prefix="/api/v1", tags=[tag], responses={422: {**problem, "description": "The request is not legal."},
        "default": {**problem, "description": "Any other problem."}},
    )  # fmt: skip
