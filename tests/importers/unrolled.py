"""Graphs with their layers written out, as a trace has them."""

from __future__ import annotations

from dataclasses import replace

from planner.core.graph import Block, ModelGraph, Module, Node, Repeat
from planner.core.layers import Layers, list_of


def unrolled(graph: ModelGraph) -> tuple[Block, tuple[Module, ...]]:
    """Return a graph's root block without repeats, and its modules with every layer."""
    root = graph.root
    body: list[Node | Repeat] = []
    parameters = list(root.parameters)
    modules = list(graph.modules)
    named: dict[str, str] = {}
    for item in root.body:
        if isinstance(item, Node):
            body.append(replace(item, operands=tuple(named.get(n, n) for n in item.operands)))
            continue
        block = item.block
        bound = dict(zip((v.name for v in block.inputs), (named.get(n, n) for n in item.operands), strict=True))
        for iteration in range(item.count):
            names = _names(item, iteration)
            for node in block.nodes:
                body.append(
                    replace(
                        node, name=_put(node.name, names), module=_put(node.module, names),
                        operands=tuple(bound.get(n, _put(n, names)) for n in node.operands),
                        results=tuple(replace(v, name=_put(v.name, names)) for v in node.results),
                    )
                )  # fmt: skip
            parameters += [replace(p, name=_put(p.name, names)) for p in block.parameters]
            outs = [bound.get(name, _put(name, names)) for name in block.outputs]
            bound |= dict(zip((v.name for v in block.inputs), outs, strict=False))
        named |= dict(zip((v.name for v in item.results), outs, strict=True))
        modules = _written_out(item, modules)
    return Block(
        inputs=root.inputs, parameters=tuple(parameters), body=tuple(body),
        outputs=tuple(named.get(n, n) for n in root.outputs),
    ), tuple(modules)  # fmt: skip


def _names(repeat: Repeat, iteration: int) -> dict[str, str]:
    path, layers = list_of(repeat.name)
    first = (layers or Layers(0, repeat.count)).first
    return {
        template: f"{path}.{first + iteration * repeat.period + place}"
        for place, template in enumerate(repeat.templates)
    }


def _put(name: str, names: dict[str, str]) -> str:
    for template, path in names.items():
        if name == template or (name.startswith(template) and name[len(template)] in "./:"):
            return path + name[len(template) :]
    return name


def _written_out(repeat: Repeat, modules: list[Module]) -> list[Module]:
    """Return the modules with those of every layer in place of the template's."""
    own = [m for m in modules if any(_put(m.path, {t: ""}) != m.path for t in repeat.templates)]
    at = modules.index(own[0])
    out = [
        replace(m, path=_put(m.path, {template: path}))
        for iteration in range(repeat.count)
        for template, path in _names(repeat, iteration).items()
        for m in own
        if _put(m.path, {template: ""}) != m.path
    ]
    rest = [m for m in modules if m not in own]
    return rest[:at] + out + rest[at:]
