"""From the source of an architecture, `{"module": NAME, "arguments": {…}}`, to its graph."""

from __future__ import annotations

from ..core.graph import ModelGraph
from ..errors import ModelError
from .bundled import bundled
from .modules import ModuleSource, read_source


def load_module(content: str, name: str) -> ModelGraph:
    """Return the graph of an architecture: the one that came along, or traced, which needs torch.

    Raises
    ------
    ModelError
        What `read_source` and `traced_module` raise.
    """
    read = read_source(content, name)
    return bundled(read.named(name)) or traced_module(read, name)


def traced_module(read: ModuleSource, name: str) -> ModelGraph:
    """Return the graph that tracing an architecture gives.

    Raises
    ------
    ModelError
        `model.package-missing` without torch, or what tracing raises.
    """
    try:
        from .aten.build import build
        from .modules.tracing import trace_module
    except ModuleNotFoundError as problem:
        raise ModelError(
            "model.package-missing", f"{name} has to be traced, which needs the package {problem.name}.",
            "Install shardwright[torch], or open a model that comes along.", subject=name,
        ) from None  # fmt: skip
    return build(trace_module(read, name), read.named(name), name)
