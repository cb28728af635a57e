"""Verb: file, config or module → `ModelGraph`; the table `IMPORTERS` has a row a kind of source."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ..core.graph import ModelGraph, ModelSource
from ..core.json_text import digest
from ..errors import ModelError
from .definition import ImporterDef
from .files import ONNX, PT2, stored
from .graph_json import KIND, read_graph, write_graph
from .load import load_at_once, load_bytes, load_code, load_hf_config, load_model, load_own, load_zoo
from .module_source import load_module
from .modules import KIND as MODULE
from .shrink import fewer_layers, smaller_content
from .shrink import way as shrink_way
from .sizes import Sizes
from .watch import Watch
from .zoo_models import zoo_names

__all__ = [
    "IMPORTERS",
    "ImporterDef",
    "Watch",
    "load_at_once",
    "load_bytes",
    "load_code",
    "load_hf_config",
    "load_model",
    "load_own",
    "load_source",
    "load_zoo",
    "read_graph",
    "shrink_way",
    "shrunk",
    "write_graph",
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
            ImporterDef(name=PT2, summary="a .pt2 file of torch.export.save", load=stored(PT2)),
            ImporterDef(name=ONNX, summary="an ONNX file, for planning", load=stored(ONNX)),
        )
    }
)


def shrunk(
    graph: ModelGraph, *, layers: int, kv_heads: int, group: int, head_dim: int, ffn: int, vocab: int,
    hidden: int | None = None,
) -> ModelGraph:  # fmt: skip
    """Return the graph with other sizes; operators, names, biases and ties are those of `graph`.

    A graph whose source has no sizes, such as a file, only gets fewer layers.

    Parameters
    ----------
    kv_heads, group
        Key/value heads, and query heads to each of them.
    hidden
        Width of the residual stream; as wide as all query heads together if it is not given.

    Raises
    ------
    ModelError
        When the sizes do not fit, as for a config.
    """
    sizes = Sizes(
        layers=layers, kv_heads=kv_heads, group=group, head_dim=head_dim, ffn=ffn, vocab=vocab,
        hidden=kv_heads * group * head_dim if hidden is None else hidden,
    )  # fmt: skip
    content = smaller_content(graph.source, sizes)
    return fewer_layers(graph, layers) if content is None else IMPORTERS[graph.source.kind].load(content, graph.name)


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
