"""Bounds on what is read of a request: its size, the time it takes to come, and the JSON that it may hold."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from planner.core.json_text import parse
from planner.errors import PlannerError

from .limits import JSON, MAX_BODY, MAX_UPLOAD
from .problems import Refusal, of_diagnostic, problem

BODY_SECONDS = 30.0
UPLOADS = frozenset({"/api/v1/models/import"})
"""Paths whose bodies are files; what is in them is for the importers to judge."""


class Bodies:
    """ASGI middleware that reads a body within bounds before anything else sees it."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read and check the body, then pass the request on with it."""
        if scope["type"] != "http" or scope["method"] in {"GET", "HEAD"}:
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            uploaded = scope["path"] in UPLOADS
            body = await _read(headers, receive, MAX_UPLOAD if uploaded else MAX_BODY)
            if not uploaded and "json" in headers.get("content-type", "") and body:
                _check(body)
        except Refusal as refusal:
            answer = refusal.response()
            # What has not been read of the body can't be told from the next request.
            answer.headers["Connection"] = "close"
            await answer(scope, receive, send)
            return
        except PlannerError as error:
            found = of_diagnostic(error.diagnostic)
            await problem(found.status, found.detail, code=found.code, hint=found.hint)(scope, receive, send)
            return
        given = False

        async def again() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self.app(scope, again, send)


async def _read(headers: Headers, receive: Receive, most: int) -> bytes:
    declared = headers.get("content-length", "0")
    # Longer numbers are not parsed at all.
    if not declared.isdecimal() or len(declared) > 15 or int(declared) > most:
        raise _too_large(most)
    parts: list[bytes] = []
    count = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Refusal(400, "http.incomplete", "The connection ended before the body did.")
                parts.append(message.get("body", b""))
                count += len(parts[-1])
                if count > most:
                    raise _too_large(most)
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise Refusal(408, "http.timeout", f"The body did not come within {BODY_SECONDS:g} s.") from None


def _check(body: bytes) -> None:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        raise Refusal(400, "http.json-syntax", "The body is no UTF-8 text.") from None
    parse(text, "The body", JSON)


def _too_large(most: int) -> Refusal:
    return Refusal(413, "http.too-large", f"The body is larger than {most:,} bytes.", "Send less.")
