"""What a model is, in a line."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.graph import ModelGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One model.

    Parameters
    ----------
    hidden
        Width of what goes from layer to layer; 0 if nothing does.
    symbols
        Of `B` and `S`, what a plan may choose: samples in a microbatch, tokens in a sequence.
    fixed
        Sentences on what the model fixes of them.
    source, digest
        Which importer read it, and the SHA-256 of what it read.
    """

    name: str
    architecture: str
    layers: int
    hidden: int
    parameters: int
    source: str
    digest: str
    symbols: tuple[str, ...]
    fixed: tuple[str, ...]


def facts(graph: ModelGraph) -> Facts:
    """Return what the graph says of the model."""
    carried = [repeat.block.inputs[0].meta.shape[-1] for repeat in graph.root.repeats if repeat.block.inputs]
    width = carried[0] if carried else 0
    return Facts(
        name=graph.name,
        architecture=graph.modules[0].class_name if graph.modules else "",
        layers=graph.layer_count,
        hidden=width if isinstance(width, int) else 0,
        parameters=graph.parameter_count,
        source=graph.source.kind,
        digest=graph.source.digest,
        symbols=graph.symbols,
        fixed=graph.fixed,
    )
