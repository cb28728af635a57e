"""Who may ask: headers on every answer, the host and origin of a request, and the token.

On loopback a name other than this machine's is refused, since a stranger's name that resolves to 127.0.0.1 would let
that stranger's page read plans (DNS rebinding). A request that changes something must not come from another origin.
"""

from __future__ import annotations

from hmac import compare_digest
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .problems import problem
from .settings import Settings

HEADERS = {
    # Scripts, styles, fonts and pictures come from this server only. The component library writes style attributes,
    # and pictures of the graph are made in the page.
    "Content-Security-Policy": (
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; worker-src 'self' blob:;"
        " base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
COOKIE = "shardwright_token"
SAFE = ("GET", "HEAD", "OPTIONS")
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")


class SecurityHeaders:
    """ASGI middleware that adds ``HEADERS`` to every answer, errors included."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and complete the start of its answer."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if scope["path"].startswith("/api/"):
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self.app(scope, receive, send_with_headers)


class Access:
    """ASGI middleware that lets only those requests pass that may."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app = app
        self.settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on or answer it here."""
        answer = self._answer(scope) if scope["type"] == "http" else None
        await (answer or self.app)(scope, receive, send)

    def _answer(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if self.settings.is_local and _name(host) not in (*LOCAL_NAMES, self.settings.host):
            return problem(
                421, "This server serves its own machine only.", hint="Open http://localhost, with its port."
            )
        origin = headers.get("origin")
        if scope["method"] not in SAFE and origin is not None and _netloc(origin) != host:
            return problem(403, "The request comes from a page of another origin.", code="http.origin")
        if not self.settings.token or scope["path"] == "/healthz":
            return None
        return self._token(scope, headers)

    def _token(self, scope: Scope, headers: Headers) -> Response | None:
        if scope["path"] == "/" and scope["method"] == "GET" and scope["query_string"]:
            given = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=20).get("token", [""])[0]
            if self._is_token(given):
                welcome = RedirectResponse("/", 303)
                welcome.set_cookie(COOKIE, given, httponly=True, samesite="strict")
                return welcome
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            given = _cookie(headers.get("cookie", ""))
        if self._is_token(given.strip()):
            return None
        answer = problem(
            401, "This server asks for its token.",
            hint="Open /?token=… once, or send the header Authorization: Bearer ….",
        )  # fmt: skip
        answer.headers["WWW-Authenticate"] = "Bearer"
        return answer

    def _is_token(self, given: str) -> bool:
        return compare_digest(given.encode("utf-8", "replace"), self.settings.token.encode())


def _name(host: str) -> str:
    """Return the name in a Host header, without port and brackets."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _cookie(header: str) -> str:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found else ""
