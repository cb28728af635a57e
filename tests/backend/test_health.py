"""Covers: backend.app, routes.health, page, problems, security."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from backend.app import create_app

ROOT = Path(__file__).parents[2]


@pytest.fixture
def client() -> TestClient:
    return TestClient(create_app())


def test_healthz(client: TestClient) -> None:
    answer = client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "version": version("shardwright")}


def test_page_and_what_it_links_to(client: TestClient) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "Shardwright" in page.text
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


def test_missing_page_is_a_problem_document_and_the_rest_works(tmp_path: Path) -> None:
    client = TestClient(create_app(page=tmp_path))
    answer = client.get("/")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["title"] == "Service Unavailable"
    assert "python hatch_build.py" in answer.json()["detail"]
    assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/no/such", 404), ("POST", "/healthz", 405)])
def test_errors_are_problem_documents(client: TestClient, method: str, path: str, status: int) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    assert path in answer.json()["detail"]


@pytest.mark.parametrize("path", ["/", "/healthz", "/no/such"])
def test_security_headers_on_every_answer(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_openapi_is_served_and_documentation_from_elsewhere_is_not(client: TestClient) -> None:
    assert "/healthz" in client.get("/api/v1/openapi.json").json()["paths"]
    assert client.get("/docs").status_code == 404
