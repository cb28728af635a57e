"""Covers: backend.log."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from backend.log import JsonLines

from .conftest import Caller


def test_one_line_a_request_with_the_template_of_its_path(
    client: Caller, state: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "shardwright"):
        client.get(f"/api/v1/plans/{state['id']}?secret=1")
        client.get("/healthz")
    lines = [json.loads(JsonLines().format(r)) for r in caplog.records if r.name == "shardwright"]
    assert [(line["method"], line["path"], line["status"]) for line in lines] == [
        ("GET", "/api/v1/plans/{plan_id}", 200), ("GET", "/healthz", 200),
    ]  # fmt: skip
    assert all(line["ms"] > 0 and line["time"] and line["level"] == "info" for line in lines)
    assert state["id"] not in str(lines)


def test_a_trace_stays_on_its_line() -> None:
    try:
        raise KeyError("x\ny")
    except KeyError as error:
        record = logging.LogRecord("shardwright", logging.ERROR, "", 0, "fault", (), (KeyError, error, None))
    text = JsonLines().format(record)
    assert "\n" not in text
    assert "KeyError" in json.loads(text)["trace"]
