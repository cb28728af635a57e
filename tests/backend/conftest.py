"""A server in this process, a plan on it, and the words for asking it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from backend.app import create_app
from backend.settings import Settings

LOCAL = "http://127.0.0.1:8000"
NEW_PLAN: dict[str, Any] = {
    "model": "llama-tiny",
    "cluster": "1x8-h100-sxm",
    "mesh": [{"name": "dp", "size": 2}, {"name": "tp", "size": 4}],
    "global_batch": 8,
    "seq": 256,
    "presets": [{"name": "data_parallel", "axes": {"axis": ["dp"]}}, {"name": "megatron", "axes": {"axis": ["tp"]}}],
}


class Caller(TestClient):
    """A client with the few requests that most tests make."""

    def new(self, **changes: Any) -> dict[str, Any]:
        """Make a plan and return its state."""
        return self.ok(self.post("/api/v1/plans", json=NEW_PLAN | changes), 201)

    def edit(self, state: dict[str, Any], *changes: dict[str, Any], label: str | None = None) -> Any:
        """Send an edit of the plan as it was in `state`."""
        body = {"changes": list(changes)} | ({"label": label} if label else {})
        return self.patch(f"/api/v1/plans/{state['id']}", json=body, headers=self.seen(state))

    def step(self, state: dict[str, Any], way: str) -> dict[str, Any]:
        """Undo or redo."""
        return self.ok(self.post(f"/api/v1/plans/{state['id']}/{way}", headers=self.seen(state)))

    @staticmethod
    def seen(state: dict[str, Any]) -> dict[str, str]:
        """Return the header that names the version of a state."""
        return {"If-Match": f'"{state["version"]}"'}

    @staticmethod
    def ok(answer: Any, status: int = 200) -> Any:
        """Return the body of an answer that must be of this status."""
        assert answer.status_code == status, answer.text
        return answer.json()

    @staticmethod
    def problem(answer: Any, status: int, code: str) -> dict[str, Any]:
        """Return the problem document that an answer must be."""
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        found: dict[str, Any] = answer.json()
        assert set(found) >= {"type", "title", "status", "detail", "code", "hint", "subject"}
        assert (found["status"], found["code"]) == (status, code)
        return found


@pytest.fixture
def app() -> FastAPI:
    return create_app()


@pytest.fixture
def on_disk(tmp_path: Path) -> Settings:
    """Settings with a database that outlives a server."""
    return Settings(database_url=f"sqlite:///{tmp_path / 'data' / 'plans.db'}")


@pytest.fixture
def client(app: FastAPI) -> Iterator[Caller]:
    with Caller(app, base_url=LOCAL) as caller:
        yield caller


@pytest.fixture
def state(client: Caller) -> dict[str, Any]:
    return client.new()
