"""`ModelGraph` → the text of its JSON form."""

from __future__ import annotations

from ...core.graph import Block, Feed, ModelGraph, Node, Parameter, Repeat, Value
from ...core.json_text import canonical
from .form import FEED_DEFAULTS, FORMAT, VERSION, to_plain


def write_graph(graph: ModelGraph) -> str:
    """Return a graph as canonical JSON; where it came from (`graph.source`) is not in it.

    Raises
    ------
    ModelError
        `model.graph-number` if an attribute is a number that the file can't hold.
    """
    plain: dict[str, object] = {
        "format": FORMAT,
        "version": VERSION,
        "name": graph.name,
        "modules": [[module.path, module.class_name] for module in graph.modules],
        "root": _block(graph.root),
        "feeds": [_feed(feed) for feed in graph.feeds],
    }
    if graph.logits:
        plain["logits"] = graph.logits
    if graph.longest_seq:
        plain["longest_seq"] = graph.longest_seq
    if graph.fixed:
        plain["fixed"] = list(graph.fixed)
    return canonical(plain)


def _feed(feed: Feed) -> dict[str, object]:
    plain: dict[str, object] = {"name": feed.name, "kind": feed.kind}
    for key in ("low", "high", "ignored", "next_of"):
        value = getattr(feed, key)
        if value != FEED_DEFAULTS[key]:
            plain[key] = value
    return plain


def _block(block: Block) -> dict[str, object]:
    return {
        "inputs": [_value(value) for value in block.inputs],
        "parameters": [_parameter(parameter) for parameter in block.parameters],
        "body": [_repeat(item) if isinstance(item, Repeat) else _node(item) for item in block.body],
        "outputs": list(block.outputs),
    }


def _value(value: Value) -> list[str]:
    return [value.name, str(value.meta)]


def _parameter(parameter: Parameter) -> list[str]:
    return [parameter.name, str(parameter.meta), parameter.initial]


def _node(node: Node) -> dict[str, object]:
    plain: dict[str, object] = {
        "name": node.name,
        "op": node.op,
        "operands": list(node.operands),
        "results": [str(value.meta) for value in node.results],
    }
    if node.attributes:
        plain["attributes"] = {name: to_plain(value) for name, value in node.attributes}
    if node.module != node.name.partition("/")[0]:
        plain["module"] = node.module
    if node.origin:
        plain["origin"] = node.origin
    return plain


def _repeat(repeat: Repeat) -> dict[str, object]:
    return {
        "repeat": repeat.name,
        "count": repeat.count,
        "block": _block(repeat.block),
        "operands": list(repeat.operands),
    }
