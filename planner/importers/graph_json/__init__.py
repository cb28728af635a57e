"""A `ModelGraph` as JSON, for any source that has no importer; `docs/reference/graph-json.md` describes the form.

What follows from the rest is not in the file: rules and shapes of results come from the table `OPS`.

Invariants: `read_graph(write_graph(graph), …)` equals the graph; `write_graph(read_graph(text, …))` is one text for all
texts that say the same; whatever a text holds, reading gives a graph without findings of `verify`, or one `ModelError`
that names the place.
"""

from __future__ import annotations

from .read import KIND, read_graph, with_source
from .write import write_graph

__all__ = ["KIND", "read_graph", "with_source", "write_graph"]
