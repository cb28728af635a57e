"""Names of operators: the path of a module that is one operator, `path/role` of one that is several.

A role is the operator's name, with a number where a module has several of one; the loss is called `loss`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ....core.graph import Block, Node
from ..program import Program
from .flat import Flat


def named(block: Block, logits: str, program: Program) -> Flat:
    """Return a block under the names that people expect, in place of those of the trace."""
    nodes = block.nodes
    owners = Counter(node.module for node in nodes)
    inner = {path.rpartition(".")[0] for path in owners} | _ancestors(owners)
    taken = {path for path, _ in program.modules} | {value.name for value in block.inputs}
    taken |= {parameter.name for parameter in block.parameters}
    loss = block.outputs[0] if block.outputs else ""
    names: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for node in nodes:
        alone = node.module and owners[node.module] == 1 and node.module not in inner
        name = node.module if alone else _free(node, taken, numbers, is_loss=node.results[0].name == loss)
        taken.add(name)
        names |= {v.name: name if k == 0 else f"{name}:{k}" for k, v in enumerate(node.results)}
    body = tuple(_renamed(node, names) for node in nodes)
    outputs = tuple(names.get(name, name) for name in block.outputs)
    return Flat(block=replace(block, body=body, outputs=outputs), logits=names.get(logits, logits))


def _ancestors(paths: Counter[str]) -> set[str]:
    """Return every module that has another one with operators below it."""
    found = set()
    for path in paths:
        parts = path.split(".")
        found |= {".".join(parts[:n]) for n in range(1, len(parts))}
    return found


def _free(node: Node, taken: set[str], numbers: dict[str, int], *, is_loss: bool) -> str:
    """Return the first free name of a role; `numbers` holds where the search for each went on."""
    role = "loss" if is_loss and not node.module else node.op
    prefix = f"{node.module}/" if node.module else ""
    first = f"{prefix}{role}"
    name, number = first, numbers.get(first, 2)
    while name in taken:
        name, number = f"{first}_{number}", number + 1
    numbers[first] = number
    return name


def _renamed(node: Node, names: dict[str, str]) -> Node:
    results = tuple(replace(value, name=names[value.name]) for value in node.results)
    operands = tuple(names.get(name, name) for name in node.operands)
    return replace(node, name=results[0].name, operands=operands, results=results)
