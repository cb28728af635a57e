"""Errors as problem documents (RFC 9457): every answer that is no success has this one shape."""

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse

MEDIA_TYPE = "application/problem+json"


def problem(status: HTTPStatus, detail: str) -> JSONResponse:
    """Return a problem document that says what is wrong and, where it can, the remedy."""
    return JSONResponse(
        {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail},
        status_code=status.value,
        media_type=MEDIA_TYPE,
    )


def answer_http_error(request: Request, error: Exception) -> JSONResponse:
    """Turn an HTTP error of the framework into a problem document."""
    assert isinstance(error, HTTPException)
    response = problem(HTTPStatus(error.status_code), f"{request.method} {request.url.path}: {error.detail}")
    response.headers.update(error.headers or {})
    return response
