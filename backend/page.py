"""Where the web page lies, and how it is served."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from .problems import problem

FOREVER = "public, max-age=31536000, immutable"


class Page(StaticFiles):
    """The files of the page; a path of the page's own, such as `/plans/…`, is answered with `index.html`."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Return a file, with what browsers may keep of it."""
        try:
            response = await super().get_response(path, scope)
        except HTTPException as error:
            own = scope["path"].startswith(("/api/", "/assets/")) or "." in path.rpartition("/")[2]
            if error.status_code != HTTPStatus.NOT_FOUND or own:
                raise
            response = await super().get_response("index.html", scope)
        # Names under assets/ hold the digest of their content.
        response.headers["Cache-Control"] = FOREVER if scope["path"].startswith("/assets/") else "no-cache"
        return response


def page_folder() -> Path:
    """Return the folder of the built page."""
    return Path(__file__).parent / "webui"


def serve_page(app: FastAPI, folder: Path) -> None:
    """Serve ``folder`` at ``/``, after the routes that ``app`` has already.

    A page that is not there is told to whoever asks for it; the API works without it.
    """
    if (folder / "index.html").is_file():
        app.mount("/", Page(directory=folder, html=True), name="page")
        return

    @app.get("/", include_in_schema=False)
    def page_missing() -> JSONResponse:
        return problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "The web page is not built. Run `python hatch_build.py` in the checkout, or install"
            " the wheel, which carries it; then start the server again.",
        )
