"""The whole chain from a program to a graph."""

from __future__ import annotations

from ...core.graph import ModelGraph, ModelSource, Module
from .lower import lower
from .program import Program
from .strip import strip


def build(program: Program, source: ModelSource, name: str) -> ModelGraph:
    """Return the graph of a program.

    Parameters
    ----------
    name
        Of the graph.

    Raises
    ------
    ModelError
        What `lower` raises.
    """
    flat = lower(strip(program))
    modules = tuple(Module(path=path, class_name=kind) for path, kind in program.modules)
    return ModelGraph(
        name=name, source=source, root=flat.block, modules=modules, logits=flat.logits, fixed=program.fixed
    )  # fmt: skip
