"""Covers: backend.app, routes.health, page, problems."""

from __future__ import annotations

import logging
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from fastapi import FastAPI
from sqlalchemy.exc import OperationalError

from backend.app import create_app

from .conftest import LOCAL, Caller

ROOT = Path(__file__).parents[2]


def test_healthz(client: Caller) -> None:
    assert client.ok(client.get("/healthz")) == {"status": "ok", "version": version("shardwright"), "database": "ok"}


def test_healthz_tells_when_the_database_is_gone(client: Caller, app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OperationalError("SELECT 1", {}, Exception("gone"))

    monkeypatch.setattr(app.state.desk.database, "check", broken)
    client.problem(client.get("/healthz"), 503, "http.database")


def test_page_and_what_it_links_to(client: Caller) -> None:
    page = client.get("/")
    assert page.status_code == 200
    scripts = re.findall(r'src="([^"]+\.js)"', page.text)
    assert scripts
    for script in scripts:
        assert client.get(script).headers["content-type"].startswith("text/javascript")
    assert client.get("/favicon.svg").headers["content-type"] == "image/svg+xml"


def test_page_needs_nothing_that_the_policy_forbids() -> None:
    # The policy of backend.security allows no inline scripts and no other hosts.
    html = (ROOT / "frontend" / "index.html").read_text(encoding="utf-8")
    for forbidden in ("<style", "style=", "<script>", 'src="http', 'href="http', "url(http"):
        assert forbidden not in html


@pytest.fixture
def built(tmp_path: Path) -> Caller:
    page = tmp_path / "page"
    (page / "assets").mkdir(parents=True)
    (page / "index.html").write_text("<title>Shardwright</title>")
    (page / "assets" / "main-1a2b.js").write_text("export {};" + " " * 2000)
    return Caller(create_app(page=page), base_url=LOCAL)


def test_page_and_its_assets(built: Caller) -> None:
    page = built.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["cache-control"] == "no-cache"
    script = built.get("/assets/main-1a2b.js")
    assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert script.headers["content-encoding"] == "gzip"


@pytest.mark.parametrize("path", ["/plans/0123", "/new"])
def test_paths_of_the_page_itself_get_the_page(built: Caller, path: str) -> None:
    answer = built.get(path)
    assert answer.status_code == 200
    assert "Shardwright" in answer.text
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "path",
    ["/api/v1/nothing", "/api/v2", "/assets/gone.js", "/favicon.png", "/../pyproject.toml", "/%2e%2e/pyproject.toml",
     "/assets/..%2f..%2fpyproject.toml", "/assets/%2e%2e/%2e%2e/etc/passwd.x"],
)  # fmt: skip
def test_what_is_not_there_is_a_problem_document(built: Caller, path: str) -> None:
    built.problem(built.get(path), 404, "http.not-found")


def test_missing_page_is_a_problem_document_and_the_rest_works(tmp_path: Path) -> None:
    client = Caller(create_app(page=tmp_path), base_url=LOCAL)
    assert "python hatch_build.py" in client.problem(client.get("/"), 503, "http.unavailable")["detail"]
    assert client.get("/healthz").status_code == 200


def test_a_wrong_method_is_a_problem_document(client: Caller) -> None:
    answer = client.post("/healthz")
    client.problem(answer, 405, "http.method")
    assert "GET" in answer.headers["allow"]


def test_documentation_from_elsewhere_is_not_served(client: Caller) -> None:
    assert client.get("/api/v1/openapi.json").status_code == 200
    assert "swagger" not in client.get("/docs").text


def test_a_fault_is_logged_with_its_trace_and_answered_without(
    client: Caller, app: FastAPI, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(app.state.desk.plans, "all", lambda: 1 / 0)
    with caplog.at_level(logging.INFO, "shardwright"):
        found = client.problem(client.get("/api/v1/plans"), 500, "http.internal")
    assert "Zero" not in found["detail"]
    (fault,) = [record for record in caplog.records if record.exc_info]
    assert fault.exc_info is not None
    assert fault.exc_info[0] is ZeroDivisionError
