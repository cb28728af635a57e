"""Graphs of the zoo's models that torch has to trace, so that they open without it: `zoo/graphs/NAME.json.gz`.

Each is what tracing its source gives (`bundle.py` writes them, tests compare), and stands in for the trace of the same
source, whatever the name: it is found by the digest of the source's canonical content.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files

from ..core.graph import ModelGraph, ModelSource
from ..core.json_text import digest, parse
from .graph_json import read_graph
from .hf_config import BOUNDS
from .modules import read_source
from .transformers_config import canonical_config
from .zoo_models import zoo_names, zoo_text

_GRAPHS = files(__package__) / "zoo" / "graphs"


def zoo_source(name: str) -> ModelSource:
    """Return the source of a model that comes along, as one that is traced has it."""
    text = zoo_text(name)
    values = parse(text, name, BOUNDS)
    assert isinstance(values, dict)
    if "module" in values:
        return read_source(text, name).named(name)
    content = canonical_config(values, name)
    return ModelSource(name=name, kind="hf_config", digest=digest(content), content=content)


def bundled(source: ModelSource) -> ModelGraph | None:
    """Return the graph that came along for a source, under the source's name; None if none did."""
    name = _names().get(source.digest)
    return None if name is None else replace(_graph(name), name=source.name, source=source)


def bundled_as(name: str) -> ModelGraph | None:
    """Return the graph that came along for a name of the zoo; None if its builder needs none."""
    return _graph(name) if name in bundled_names() else None


def bundled_names() -> tuple[str, ...]:
    """Return the models of the zoo that have such a graph."""
    return tuple(_names().values())


@cache
def _names() -> Mapping[str, str]:
    """Digests of sources, and the names of their graphs."""
    return {zoo_source(name).digest: name for name in zoo_names() if (_GRAPHS / f"{name}.json.gz").is_file()}


@cache
def _graph(name: str) -> ModelGraph:
    text = gzip.decompress((_GRAPHS / f"{name}.json.gz").read_bytes()).decode()
    return read_graph(text, name, source=zoo_source(name))
