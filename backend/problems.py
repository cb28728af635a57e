"""Errors as problem documents (RFC 9457): every answer that is no success has this one shape.

`code` is stable: that of a `PlannerError`, or one of the server's own, which start with `http.`, `plan.version-` or
`job.`; docs/reference/errors-http.md lists these.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from planner.errors import Diagnostic, PlannerError

from .schemas import Place, Problem
from .store import VersionConflict

MEDIA_TYPE = "application/problem+json"
LONGEST = 2000

# Codes of PlannerErrors that are not 422: what the client sent is not at fault, or HTTP has a word for it.
STATUS = {
    "document.too-large": 413,
    "http.too-large": 413,
    "job.fault": 500,
    "job.queue-full": 429,
    "model.too-large": 413,
    "plan.badge-unknown": 404,
    "plan.node-unknown": 404,
    "plan.slot-unknown": 404,
    "verify.broken": 500,
}
# Codes of the framework's own errors.
CODES = {
    400: "http.invalid", 401: "http.token-required", 404: "http.not-found", 405: "http.method",
    413: "http.too-large", 421: "http.host", 422: "http.invalid", 503: "http.unavailable",
}  # fmt: skip


class Refusal(Exception):
    """A request that the server refuses, with the answer that it gets."""

    def __init__(self, status: int, code: str, detail: str, hint: str = "") -> None:
        self.status, self.code, self.detail, self.hint = status, code, detail, hint
        super().__init__(detail)

    def response(self) -> Response:
        """Return the answer."""
        return problem(self.status, self.detail, code=self.code, hint=self.hint)


def problem(
    status: int, detail: str, *, code: str = "", hint: str = "", subject: str = "", **more: object
) -> JSONResponse:
    """Return a problem document that says what is wrong and, where it can, the remedy."""
    known = document(status, detail, code=code or CODES.get(status, "http.error"), hint=hint, subject=subject)
    content = {**known.model_dump(), **more}
    return JSONResponse(content, status_code=status, media_type=MEDIA_TYPE)


def document(status: int, detail: str, *, code: str, hint: str = "", subject: str = "") -> Problem:
    """Return the members of a problem document."""
    return Problem(
        type="about:blank", title=HTTPStatus(status).phrase, status=status, detail=_short(detail), code=code,
        hint=_short(hint), subject=_short(subject),
    )  # fmt: skip


def of_diagnostic(found: Diagnostic) -> Problem:
    """Return the problem document of a planner's error."""
    status = 400 if found.code.startswith("http.json-") else STATUS.get(found.code, 422)
    return document(status, found.message, code=found.code, hint=found.hint, subject=found.subject)


def answer_http_error(request: Request, error: Exception) -> Response:
    """Turn an HTTP error of the framework into a problem document."""
    assert isinstance(error, HTTPException)
    response = problem(error.status_code, f"{request.method} {request.url.path}: {error.detail}")
    response.headers.update(error.headers or {})
    return response


def answer_planner_error(request: Request, error: Exception) -> Response:
    """Turn a planner's error into a problem document."""
    assert isinstance(error, PlannerError)
    found = of_diagnostic(error.diagnostic)
    if error.place is not None:
        found.place = Place(text=error.place.text, start=error.place.start, stop=error.place.stop)
    return JSONResponse(found.model_dump(), status_code=found.status, media_type=MEDIA_TYPE)


def answer_refusal(request: Request, error: Exception) -> Response:
    """Answer a refused request."""
    assert isinstance(error, Refusal)
    return error.response()


def answer_conflict(request: Request, error: Exception) -> Response:
    """Tell the version that the plan is at now."""
    assert isinstance(error, VersionConflict)
    return problem(
        412, f"The plan was changed elsewhere; it is at version {error.version} now.", code="plan.version-conflict",
        hint="Load it again, or keep yours as a copy.", version=error.version,
    )  # fmt: skip


def answer_invalid(request: Request, error: Exception) -> Response:
    """Turn a request that its schema refuses into a problem document that names the first places."""
    assert isinstance(error, RequestValidationError)
    found: list[Any] = list(error.errors())
    places = [(".".join(str(step) for step in item["loc"] if step != "body"), str(item["msg"])) for item in found]
    shown = "; ".join(f"{place or 'the body'}: {message}" for place, message in places[:3])
    more = f"; and {len(places) - 3} more" if len(places) > 3 else ""
    return problem(422, f"{shown}{more}.", hint="Mend these places of the request.", subject=places[0][0])


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
