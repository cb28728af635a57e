"""The web application: routes, the page, and what holds for every answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware

from planner import PlannerError

from .bodies import Bodies
from .desk import Desk
from .jobs import Bundle
from .log import Requests
from .openapi import describe
from .page import page_folder, serve_page
from .problems import (
    Refusal,
    answer_conflict,
    answer_http_error,
    answer_invalid,
    answer_planner_error,
    answer_refusal,
)
from .routes import code, health, jobs, models, pipeline, plans, redistribute, registry, results, schedules
from .security import Access, SecurityHeaders
from .settings import Settings
from .store import VersionConflict


def create_app(settings: Settings | None = None, *, page: Path | None = None, bundle: Bundle | None = None) -> FastAPI:
    """Return the application.

    Parameters
    ----------
    settings
        By default, this machine only, and a database in memory.
    page
        The folder of the web page, if not the one that belongs to this installation.
    bundle
        Plan → files that a proof runs, if not the exporter's, so that a test can prove a wrong one. It must be
        importable by name.
    """
    settings = settings or Settings()
    desk = Desk(settings, bundle)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    app = FastAPI(
        title="Shardwright",
        version=version("shardwright"),
        openapi_url="/api/v1/openapi.json",
        # The framework's documentation pages load their scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        generate_unique_id_function=_operation_id,
        redirect_slashes=False,
    )
    app.state.desk = desk
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    # The last one added is the outermost.
    app.add_middleware(Bodies)
    app.add_middleware(Access, settings=settings)
    app.add_middleware(GZipMiddleware, minimum_size=1024, compresslevel=5)
    app.add_middleware(Requests)
    app.add_middleware(SecurityHeaders)
    app.add_exception_handler(HTTPException, answer_http_error)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(PlannerError, answer_planner_error)
    app.add_exception_handler(Refusal, answer_refusal)
    app.add_exception_handler(VersionConflict, answer_conflict)
    for module in (health, registry, models, plans, results, pipeline, code, jobs, redistribute, schedules):
        app.include_router(module.router)
    serve_page(app, page or page_folder())
    return app


def _operation_id(route: APIRoute) -> str:
    """Return the handler's name: short, and stable when a path changes."""
    return route.name
