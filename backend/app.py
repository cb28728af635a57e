"""The web application: routes, the page, and what holds for every answer."""

from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException

from .page import page_folder, serve_page
from .problems import answer_http_error
from .routes import health
from .security import SecurityHeaders


def create_app(*, page: Path | None = None) -> FastAPI:
    """Return the application.

    Parameters
    ----------
    page
        The folder of the web page, if not the one that belongs to this installation.
    """
    app = FastAPI(
        title="Shardwright",
        version=version("shardwright"),
        openapi_url="/api/v1/openapi.json",
        # The framework's documentation pages load their scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(SecurityHeaders)
    app.add_exception_handler(HTTPException, answer_http_error)
    app.include_router(health.router)
    serve_page(app, page or page_folder())
    return app
