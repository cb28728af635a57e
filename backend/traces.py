"""Graphs that took long to trace, as files beside the database, so that a plan on one opens at once after a restart.

A file is as good as the trace itself: it is found by the digest of the source and by what made it.
"""

from __future__ import annotations

import gzip
import os
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from planner.core.graph import ModelGraph, ModelSource
from planner.errors import ModelError
from planner.importers import read_graph, write_graph

MAKERS = ("shardwright", "torch", "transformers")


class Traces:
    """The traces of a server.

    Parameters
    ----------
    folder
        Where they lie; nothing is kept without one.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def get(self, source: ModelSource) -> ModelGraph | None:
        """Return the graph of a source, if it is kept."""
        path = self._path(source)
        if path is None or not path.is_file():
            return None
        try:
            return read_graph(gzip.decompress(path.read_bytes()).decode(), source.name, source=source)
        except (OSError, EOFError, ValueError, ModelError):
            # Cut off, or of another version: it is made again.
            return None

    def put(self, graph: ModelGraph) -> None:
        """Keep the graph of a source."""
        path = self._path(graph.source)
        if path is None or path.is_file():
            return
        # Without room for it, it is traced again.
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.with_suffix(f".{os.getpid()}")
            beside.write_bytes(gzip.compress(write_graph(graph).encode(), 6))
            beside.replace(path)

    def _path(self, source: ModelSource) -> Path | None:
        if self._folder is None or re.fullmatch(r"[0-9a-f]{64}", source.digest) is None:
            return None
        return self._folder / f"{source.digest}-{'-'.join(map(_version, MAKERS))}.json.gz"


def _version(package: str) -> str:
    try:
        return version(package).split("+")[0]
    except PackageNotFoundError:
        return "none"
