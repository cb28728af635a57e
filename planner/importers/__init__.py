"""Verb: file, config or module → `ModelGraph`; the table `IMPORTERS` has a row a kind of source."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..core.graph import ModelGraph, ModelSource
from ..core.json_text import digest
from ..errors import ModelError
from .definition import ImporterDef
from .graph_json import KIND, read_graph
from .load import load_bytes, load_code, load_hf_config, load_model, load_own, load_zoo
from .module_source import load_module
from .modules import KIND as MODULE
from .shrink import shrunk
from .zoo_models import zoo_names

__all__ = [
    "IMPORTERS",
    "ImporterDef",
    "load_bytes",
    "load_code",
    "load_hf_config",
    "load_model",
    "load_own",
    "load_source",
    "load_zoo",
    "shrunk",
    "zoo_names",
]

IMPORTERS: Mapping[str, ImporterDef] = MappingProxyType(
    {
        definition.name: definition
        for definition in (
            ImporterDef(
                name="hf_config",
                summary="config.json of a model type that transformers knows",
                load=load_hf_config,
            ),
            ImporterDef(name=MODULE, summary="an architecture that comes along, with its arguments", load=load_module),
            ImporterDef(name=KIND, summary="a graph as JSON, written by hand or by another tool", load=read_graph),
        )
    }
)


def load_source(source: ModelSource) -> ModelGraph:
    """Return the graph again from what a plan file stored of it.

    Raises
    ------
    ModelError
        `model.source-kind` or `model.source-changed`, or what the importer raises.
    """
    if source.kind not in IMPORTERS:
        raise ModelError(
            "model.source-kind",
            f"Model {source.name!r} is of the kind {source.kind!r}, which no importer reads.",
            f"Known kinds are {', '.join(IMPORTERS)}.",
            subject=source.name,
        )
    if digest(source.content) != source.digest:
        raise ModelError(
            "model.source-changed",
            f"The content of model {source.name!r} is not the one that its digest was taken of.",
            "Load the model again.",
            subject=source.name,
        )
    graph = IMPORTERS[source.kind].load(source.content, source.name)
    if graph.source.digest != source.digest:
        raise ModelError(
            "model.source-changed",
            f"The content of model {source.name!r} is not in canonical form.",
            "Load the model again.",
            subject=source.name,
        )
    return graph
