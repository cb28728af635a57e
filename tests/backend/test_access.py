"""Covers: backend.security."""

from __future__ import annotations

import pytest

from backend.app import create_app
from backend.settings import Settings

from .conftest import LOCAL, Caller

TOKEN = "0123456789abcdef"
WORLD = "http://plans.example.org"


@pytest.mark.parametrize("path", ["/", "/healthz", "/api/v1/nothing", "/api/v1/plans"])
def test_security_headers_on_every_answer(client: Caller, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    for part in ("default-src 'self'", "frame-ancestors 'none'", "style-src 'self' 'unsafe-inline'"):
        assert part in policy
    assert "unsafe-eval" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers


def test_answers_of_the_api_are_not_kept_by_browsers(client: Caller) -> None:
    assert client.get("/api/v1/plans").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000"])
def test_names_of_this_machine(client: Caller, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "", "[", "a@b"]
)
def test_another_name_for_this_machine_is_refused(client: Caller, host: str) -> None:
    client.problem(client.get("/api/v1/plans", headers={"Host": host}), 421, "http.host")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:9000", "http://["])
def test_a_page_of_another_origin_changes_nothing(client: Caller, origin: str) -> None:
    answer = client.post("/api/v1/plans", json={}, headers={"Origin": origin})
    client.problem(answer, 403, "http.origin")


def test_a_form_that_claims_to_be_text_is_no_json(client: Caller) -> None:
    answer = client.post("/api/v1/redistribute", content="{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 422


def test_our_own_page_may(client: Caller) -> None:
    assert client.new()["version"] == 1
    answer = client.post("/api/v1/plans/import", json={"text": "{}"}, headers={"Origin": LOCAL})
    client.problem(answer, 422, "document.format")


@pytest.fixture
def guarded() -> Caller:
    settings = Settings(host="0.0.0.0", token=TOKEN)
    return Caller(create_app(settings), base_url=WORLD, follow_redirects=False)


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/plans", "/api/v1/openapi.json", "/?token=wrong", "/?token=", "/?token=é"]
)
def test_without_the_token_there_is_nothing_to_see(guarded: Caller, path: str) -> None:
    answer = guarded.get(path)
    guarded.problem(answer, 401, "http.token-required")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer é"])
def test_wrong_credentials(guarded: Caller, given: str) -> None:
    answer = guarded.get("/api/v1/plans", headers={"Authorization": given.encode("latin-1")})
    guarded.problem(answer, 401, "http.token-required")


def test_the_token_as_a_header(guarded: Caller) -> None:
    assert guarded.get("/api/v1/plans", headers={"Authorization": f"Bearer {TOKEN}"}).json() == []


def test_the_token_in_the_address_once_and_then_as_a_cookie(guarded: Caller) -> None:
    welcome = guarded.get(f"/?token={TOKEN}")
    assert (welcome.status_code, welcome.headers["location"]) == (303, "/")
    cookie = welcome.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert guarded.get("/api/v1/plans").json() == []


def test_healthz_needs_no_token(guarded: Caller) -> None:
    assert guarded.get("/healthz").status_code == 200
