"""`ModelGraph` → the text of its JSON form."""

from __future__ import annotations

from ...core.graph import Block, ModelGraph, Node, Parameter, Repeat, Value
from ...core.json_text import canonical
from .form import FORMAT, VERSION, to_plain


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
    }
    if graph.logits:
        plain["logits"] = graph.logits
    if graph.longest_seq:
        plain["longest_seq"] = graph.longest_seq
    return canonical(plain)


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
