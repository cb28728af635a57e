"""``python -m backend``: serve until interrupted; on the loopback interface, unless told otherwise."""

from __future__ import annotations

import argparse
import os

import uvicorn
from alembic.util import CommandError
from sqlalchemy.exc import SQLAlchemyError

from .app import create_app
from .log import to_stderr
from .settings import Settings


def main() -> None:
    """Read the settings, let flags override them, and serve."""
    parser = argparse.ArgumentParser(prog="python -m backend", description=__doc__)
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default: 8000)")
    parser.add_argument("--token", help="what clients have to show; better set SHARDWRIGHT_TOKEN, which `ps` hides")
    flags = parser.parse_args()
    try:
        settings = Settings.from_environment(os.environ, host=flags.host, port=flags.port, token=flags.token)
    except ValueError as error:
        parser.error(str(error))
    try:
        app = create_app(settings)
    except (SQLAlchemyError, CommandError, ImportError, OSError) as error:
        reason = str(error).splitlines()[0]
        parser.error(f"the database can't be opened: {reason}. See SHARDWRIGHT_DATA and SHARDWRIGHT_DATABASE.")
    to_stderr()
    if settings.port:
        print(f"Shardwright is on http://{_shown(settings.host)}:{settings.port} (Ctrl-C ends it)", flush=True)
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        # One parser wherever it runs; this one bounds the head of a request.
        http="h11",
        server_header=False,
        access_log=False,
        log_config=None,
        timeout_keep_alive=10,
        timeout_graceful_shutdown=3,
        limit_concurrency=200,
        h11_max_incomplete_event_size=32 << 10,
    )


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


if __name__ == "__main__":
    main()
