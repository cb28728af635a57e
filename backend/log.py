"""The log: one JSON object a line, one line a request."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from time import perf_counter

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .problems import problem

LOG = logging.getLogger("shardwright")


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object; `extra={"fields": …}` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def to_stderr() -> None:
    """Write the log, and that of the web server, to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name in ("shardwright", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.INFO)


class Requests:
    """ASGI middleware that logs every request, and answers for what fails on the way."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and log how it went."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = perf_counter(), 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, watch)
        except Exception:
            LOG.exception("fault", extra={"fields": {"path": _template(scope)}})
            if status:
                raise
            answer = problem(500, "The server failed on this request; its log says more.", code="http.internal")
            await answer(scope, receive, watch)
        finally:
            # A stream that the client leaves is cancelled, and is a line too.
            fields = {
                "method": scope["method"], "path": _template(scope), "status": status,
                "ms": round((perf_counter() - start) * 1000, 2),
            }  # fmt: skip
            LOG.info("request", extra={"fields": fields})


def _template(scope: Scope) -> str:
    """Return the path with its variable parts as names, so that lines can be counted and hold no ids."""
    return getattr(scope.get("route"), "path", "") or "(page)"
