"""Where the web page lies, and how it is served."""

from http import HTTPStatus
from pathlib import Path

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.responses import JSONResponse

from .problems import problem


def page_folder() -> Path:
    """Return the folder of the built page."""
    return Path(__file__).parent / "webui"


def serve_page(app: FastAPI, folder: Path) -> None:
    """Serve ``folder`` at ``/``, after the routes that ``app`` has already.

    A page that is not there is told to whoever asks for it; the API works without it.
    """
    if (folder / "index.html").is_file():
        app.mount("/", StaticFiles(directory=folder, html=True), name="page")
        return

    @app.get("/", include_in_schema=False)
    def page_missing() -> JSONResponse:
        return problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "The web page is not built. Run `python hatch_build.py` in the checkout, or install"
            " the wheel, which carries it; then start the server again.",
        )
