"""Writes the graphs that come along with the zoo: `python -m planner.importers.bundle [NAME …]`, without names all.

It needs torch and transformers. The same source gives the same bytes.
"""

from __future__ import annotations

import gzip
import sys
from pathlib import Path

from ..errors import ModelError
from .aten.build import build
from .bundled import zoo_source
from .graph_json import write_graph
from .hf_config import read_config
from .module_source import traced_module
from .modules import KIND, read_source
from .zoo_models import zoo_names, zoo_text

FOLDER = Path(__file__).parent / "zoo" / "graphs"


def traced_names() -> tuple[str, ...]:
    """Return the models of the zoo that have no direct builder."""
    return tuple(name for name in zoo_names() if not _is_direct(name))


def traced_text(name: str) -> str:
    """Return the JSON of the graph that tracing a model of the zoo gives."""
    from .tracing.hf import trace_config

    source = zoo_source(name)
    if source.kind == KIND:
        return write_graph(traced_module(read_source(source.content, name), name))
    return write_graph(build(trace_config(source.content, name), source, name))


def write(name: str) -> Path:
    """Write the graph of a model, and return its file."""
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json.gz"
    path.write_bytes(gzip.compress(traced_text(name).encode(), 9, mtime=0))
    return path


def _is_direct(name: str) -> bool:
    text = zoo_text(name)
    try:
        read_config(text, name)
    except ModelError:
        return False
    return True


if __name__ == "__main__":
    for each in sys.argv[1:] or traced_names():
        print(f"{each}: {write(each).stat().st_size:,} bytes")
