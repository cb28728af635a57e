"""The whole chain from a program to a graph."""

from __future__ import annotations

from ...core.graph import ModelGraph, ModelSource, Module
from ..feeds import feeds_of
from .constants import fold_constants
from .fuse import as_pairs, fuse
from .layers import Folded, find_layers
from .lower import lower
from .positions import longest_seq
from .program import Program
from .sink import sink
from .speaking import speaking
from .strip import strip


def build(program: Program, source: ModelSource, name: str, *, fold: bool = True) -> ModelGraph:
    """Return the graph of a program.

    Parameters
    ----------
    name
        Of the graph.
    fold
        Whether equal layers that follow each other become a repeated block; else every one stays written out.

    Raises
    ------
    ModelError
        What `lower` raises.
    """
    flat = speaking(lower(fuse(fold_constants(as_pairs(strip(program))))))
    modules = tuple(Module(path=path, class_name=kind) for path, kind in program.modules)
    block = sink(flat.block)
    folded = find_layers(block, modules) if fold else Folded(block=block, modules=modules, renamed={})
    return ModelGraph(
        name=name, source=source, root=folded.block, modules=folded.modules,
        logits=folded.renamed.get(flat.logits, flat.logits), fixed=program.fixed,
        feeds=feeds_of(folded.block, program.feeds),
        longest_seq=longest_seq(folded.block),
    )  # fmt: skip
