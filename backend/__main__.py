"""``python -m backend``: serve on the loopback interface until interrupted."""

import argparse
import os
import sys

import uvicorn

from .app import create_app
from .settings import Settings


def main() -> None:
    """Read the settings, let flags override them, and serve."""
    parser = argparse.ArgumentParser(prog="python -m backend", description=__doc__)
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default: 8000)")
    flags = parser.parse_args()
    try:
        settings = Settings.from_environment(os.environ, host=flags.host, port=flags.port)
    except ValueError as error:
        parser.error(str(error))
    if not settings.is_local:
        print(
            f"warning: {settings.host} may be reachable from other machines, and there is no login:"
            " whoever reaches this port can use it.",
            file=sys.stderr,
        )
    uvicorn.run(create_app(), host=settings.host, port=settings.port, server_header=False)


if __name__ == "__main__":
    main()
