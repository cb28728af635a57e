"""The text of a graph's JSON form → `ModelGraph`; rules and results are inferred, everything else is checked."""

from __future__ import annotations

from dataclasses import replace

from ...core.graph import ModelGraph, ModelSource, Module
from ...core.json_text import digest, parse
from ...errors import ModelError
from ..entries import Entry
from ..feeds import feeds_of
from .blocks import BlockReader
from .feeds import read_feeds
from .form import BOUNDS, FORMAT, MAX_ITEMS, VERSION
from .write import write_graph

KIND = "graph_json"
"""Key of the table `IMPORTERS` for graphs that came as JSON."""
_OPTIONAL = ("logits", "longest_seq", "feeds", "fixed")
_MAX_SEQ = 1 << 40


def read_graph(text: str, name: str, *, kind: str = KIND, source: ModelSource | None = None) -> ModelGraph:
    """Return the graph that a text holds.

    Parameters
    ----------
    text
        JSON as `write_graph` writes it.
    name
        What to call the file in messages.
    kind
        Kind of the graph's source, when its content is the graph itself.
    source
        Where the graph came from, when it is the stored form of something else, such as a traced config.

    Raises
    ------
    ModelError
        `model.json-…` and `model.too-large` for what is no JSON within bounds; `model.graph-format`,
        `model.graph-version`, `model.graph-schema`, `model.graph-size`, `model.graph-name`, `model.graph-operator`,
        `model.graph-repeat`, `model.graph-loss`, `model.feed` for what is no graph.
    """
    whole = Entry(parse(text, name, BOUNDS), "", name, "graph")
    _check_format(whole, name)
    members = whole.members(("format", "version", "name", "modules", "root"), _OPTIONAL)
    modules = _modules(members["modules"])
    reader = BlockReader(frozenset(module.path for module in modules))
    root = reader.root(members["root"])
    logits = members["logits"].name() if "logits" in members else ""
    if logits and logits not in reader.metas:
        members["logits"].refuse(
            f"is {logits!r}, no value of the root", "Name a value of the root.", code="model.graph-name"
        )
    own = members["name"].sentence()
    graph = ModelGraph(
        name=own, source=source or ModelSource(name=own, kind=kind, digest="", content=""), root=root, modules=modules,
        logits=logits, longest_seq=members["longest_seq"].integer(0, _MAX_SEQ) if "longest_seq" in members else 0,
        feeds=read_feeds(members["feeds"], root) if "feeds" in members else feeds_of(root),
        fixed=tuple(item.sentence() for item in members["fixed"].items()) if "fixed" in members else (),
    )  # fmt: skip
    return graph if source is not None else with_source(graph, kind)


def with_source(graph: ModelGraph, kind: str = KIND) -> ModelGraph:
    """Return the graph with itself as its source."""
    content = write_graph(graph)
    return replace(graph, source=ModelSource(name=graph.name, kind=kind, digest=digest(content), content=content))


def _check_format(whole: Entry, name: str) -> None:
    value = whole.value
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ModelError(
            "model.graph-format", f'{name} does not say "format": "{FORMAT}", so it is no graph.',
            "docs/reference/graph-json.md describes the form.", subject=name,
        )  # fmt: skip
    version = value.get("version")
    if type(version) is not int or version != VERSION:
        raise ModelError(
            "model.graph-version", f"{name} is of another version of the form than {VERSION}.",
            "Write the graph again, with this version of Shardwright.", subject=name,
        )  # fmt: skip


def _modules(entry: Entry) -> tuple[Module, ...]:
    modules: list[Module] = []
    known: set[str] = set()
    items = entry.items()
    if len(items) > MAX_ITEMS:
        entry.refuse(f"has {len(items):,} modules", f"Give at most {MAX_ITEMS:,}.", code="model.too-large")
    for item in items:
        path_entry, class_entry = item.tuple_of(2, "a path and a class")
        path = path_entry.name(empty=True)
        if path in known:
            path_entry.refuse(f"names {path!r} twice", "Name every module once.", code="model.graph-name")
        if path and path.rpartition(".")[0] not in known:
            path_entry.refuse(
                f"is {path!r}, whose parent does not stand before it",
                "List parents before children, the whole with the empty path first.", code="model.graph-name",
            )  # fmt: skip
        known.add(path)
        modules.append(Module(path=path, class_name=class_entry.class_name()))
    if "" not in known:
        entry.refuse("lacks the whole model", 'List ["", "ItsClass"] first.', code="model.graph-name")
    return tuple(modules)
