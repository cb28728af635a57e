"""Names and order that people expect of a flat block.

What turns queries is called `rotary_q`, what adds attention's result to the stream `residual_attention`; a branch
stands together before the next one begins. Only names, modules of biases, and the order inside a module change. Where
no rule knows a better name, the name stays.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ...core.graph import Block, Node, Parameter
from ...ops import OPS
from .lower.flat import Flat
from .reused import with_their_callers

_HEADS = {"split_heads": "split", "rotary": "rotary", "select": "pick"}
"""What is made of queries, keys and values → how it is called, with a letter for which of them."""
_ATTENTION = re.compile(r"(?:\w+_)?attention(?:_scores)?")
_PLAIN = {"self_attn": "attention", "attn": "attention", "self_attention": "attention"}
_PRODUCTS = ("linear", "matmul", "einsum")


def speaking(flat: Flat) -> Flat:
    """Return the block with its operators in an order and under names that tell what they are for."""
    read, moved = with_their_callers(_read(flat.block), (parameter.name for parameter in flat.block.parameters))
    nodes = _ordered(read)
    view = _View(nodes, frozenset(parameter.name for parameter in flat.block.parameters))
    biases = dict(view.biases())
    wanted = {node.name: _wanted(node, view, biases) for node in nodes}
    counts = Counter(wanted.values())
    # Where two would be called alike, both keep what they were called.
    names = {old: new if counts[new] == 1 or new == old else old for old, new in wanted.items()}
    renamed = {value.name: names[node.name] + value.name[len(node.name) :] for node in nodes for value in node.results}
    renamed |= {old: renamed[new] for old, new in moved.items()}
    body = tuple(
        replace(
            node,
            name=names[node.name],
            module=_parent(node.module) if node.name in biases and names[node.name] != node.name else node.module,
            operands=tuple(renamed.get(name, name) for name in node.operands),
            results=tuple(replace(value, name=renamed[value.name]) for value in node.results),
        )
        for node in nodes
    )
    block = replace(
        flat.block,
        parameters=tuple(_parameters(flat.block.parameters, body)),
        body=body,
        outputs=tuple(renamed.get(name, name) for name in flat.block.outputs),
    )
    return replace(flat, block=block, logits=renamed.get(flat.logits, flat.logits))


def _read(block: Block) -> tuple[Node, ...]:
    """Return the operators that an output depends on: fusing leaves some of which nothing is read any more."""
    wanted = set(block.outputs)
    kept: list[Node] = []
    for node in reversed(block.nodes):
        if not wanted.isdisjoint(value.name for value in node.results):
            wanted |= set(node.operands)
            kept.append(node)
    return tuple(reversed(kept))


def _parameters(parameters: Iterable[Parameter], body: Iterable[Node]) -> Iterator[Parameter]:
    """Yield the parameters in the order in which they are read; scales start from ones, what is added from zeros."""
    slots: dict[str, list[tuple[str, str]]] = {}
    for node in body:
        for slot, name in zip(OPS[node.op].operand_names, node.operands, strict=False):
            slots.setdefault(name, []).append((node.op, slot))
    by_name = {parameter.name: parameter for parameter in parameters}
    for name in dict.fromkeys([*slots, *by_name]):
        if name not in by_name:
            continue
        read = slots.get(name, [])
        if read and all(op.endswith("norm") and slot == "weight" for op, slot in read):
            yield replace(by_name[name], initial="ones")
        elif read and (name.endswith("bias") or all(slot == "bias" for _, slot in read)):
            yield replace(by_name[name], initial="zeros")
        else:
            yield by_name[name]


def _ordered(nodes: Sequence[Node]) -> list[Node]:
    """Return the operators with each stretch of one class in the order in which its results need them."""
    ordered: list[Node] = []
    stretch: list[Node] = []
    for node in _early(nodes):
        if stretch and _class(stretch[-1]) != _class(node):
            ordered += _by_need(stretch)
            stretch = []
        stretch.append(node)
    return [*ordered, *_by_need(stretch)]


def _early(nodes: Sequence[Node]) -> list[Node]:
    """Return the operators with those that depend on nothing, such as tables of angles, where they are first needed.

    If that is in the midst of a module that they do not belong to, they come before it.
    """
    ordered: list[Node] = []
    waiting: dict[str, Node] = {}

    def put(node: Node) -> None:
        place = len(ordered)
        around = _around(_class(node), _class(ordered[-1])) if ordered else ""
        while place and around and f"{_class(ordered[place - 1])}.".startswith(f"{around}."):
            if any(value.name in node.operands for value in ordered[place - 1].results):
                break
            place -= 1
        ordered.insert(place, node)

    def fetch(node: Node) -> None:
        for name in node.operands:
            if name in waiting:
                needed = waiting[name]
                for value in needed.results:
                    del waiting[value.name]
                fetch(needed)
                put(needed)

    for node in nodes:
        if waiting.keys() >= set(node.operands):
            waiting |= {value.name: node for value in node.results}
        else:
            fetch(node)
            ordered.append(node)
    return [*ordered, *dict.fromkeys(waiting.values())]


def _around(own: str, other: str) -> str:
    """Return the outermost module around `other` that is not around `own`; empty if there is none."""
    mine, its = own.split(".") if own else [], other.split(".") if other else []
    shared = next((i for i, (a, b) in enumerate(zip(mine, its, strict=False)) if a != b), min(len(mine), len(its)))
    return ".".join(its[: shared + 1]) if shared < len(its) else ""


def _class(node: Node) -> str:
    """Return the module whose code an operator is part of: the one around a module that is just this operator."""
    return _parent(node.module) if node.name == node.module else node.module


def _by_need(stretch: list[Node]) -> Iterator[Node]:
    """Yield operators after those that they read, those of an operand together."""
    makers = {value.name: node for node in stretch for value in node.results}
    read = {name for node in stretch for name in node.operands}
    seen: set[str] = set()
    ends = [node for node in stretch if read.isdisjoint(value.name for value in node.results)]
    ahead = list(reversed(ends))
    while ahead:
        node = ahead[-1]
        missing = [m for name in node.operands if (m := makers.get(name)) is not None and m.name not in seen]
        if missing:
            ahead.append(missing[0])
            continue
        ahead.pop()
        if node.name not in seen:
            seen.add(node.name)
            yield node


@dataclass(slots=True)
class _View:
    """Who makes and who reads what."""

    nodes: list[Node]
    parameters: frozenset[str]
    makers: Mapping[str, Node]
    readers: Mapping[str, tuple[Node, ...]]

    def __init__(self, nodes: list[Node], parameters: frozenset[str]) -> None:
        self.nodes, self.parameters = nodes, parameters
        self.makers = {value.name: node for node in nodes for value in node.results}
        readers: dict[str, tuple[Node, ...]] = {}
        for node in nodes:
            for name in dict.fromkeys(node.operands):
                readers[name] = (*readers.get(name, ()), node)
        self.readers = readers

    def biases(self) -> Iterator[tuple[str, str]]:
        """Yield (addition, product) of modules that are a product and the addition of their bias, and no more."""
        owned: dict[str, list[Node]] = {}
        for node in self.nodes:
            owned.setdefault(node.module, []).append(node)
        for module, own in owned.items():
            if len(own) != 2 or not module or own[0].op not in _PRODUCTS or own[1].op != "add":
                continue
            inner = any(path.startswith(f"{module}.") for path in owned)
            if not inner and set(own[1].operands) == {own[0].results[0].name, f"{module}.bias"}:
                yield own[1].name, own[0].name

    def only(self, node: Node) -> Node | None:
        """Return the one reader of an operator's only result."""
        readers = self.readers.get(node.results[0].name, ())
        return readers[0] if len(node.results) == 1 and len(readers) == 1 else None

    def part(self, node: Node) -> str:
        """Return `q`, `k` or `v` for what becomes queries, keys or values of an attention; empty for anything else."""
        at: Node | None = node
        while at is not None:
            before, at = at, self.only(at)
            if at is not None and _ATTENTION.fullmatch(at.op):
                position = at.operands.index(before.results[0].name)
                return "qkv"[position] if position < 3 else ""
            if at is not None and at.op not in {"split_heads", "rotary", "rms_norm", "layer_norm"}:
                return ""
        return ""


def _wanted(node: Node, view: _View, biases: Mapping[str, str]) -> str:
    """Return the name of an operator that tells what it is for, or the one that it has."""
    parent, _, leaf = node.module.rpartition(".")
    if node.name in biases:
        return f"{parent}/{leaf}_bias" if parent else f"{leaf}_bias"
    if node.name in biases.values():
        return node.module
    if node.name == node.module or not node.module:
        return node.name
    return f"{node.module}/{role}" if (role := _role(node, view)) else node.name


def _role(node: Node, view: _View) -> str:
    if node.op in _HEADS and (part := view.part(node)):
        return f"{_HEADS[node.op]}_{part}"
    if node.op.endswith("_attention"):
        return "attention"
    if node.op == "add" and (child := _added(node, view)):
        return f"residual_{_PLAIN.get(child, child)}"
    reader = view.only(node)
    readers = view.readers.get(node.results[0].name, ())
    if node.op == "linear" and reader is not None and reader.op == "softmax" and reader.module == node.module:
        return "logits"
    if node.op == "softmax" and any(each.op == "route" for each in readers):
        return "shares"
    if node.op == "select" and reader is not None and reader.op in {"swiglu", "geglu"}:
        return "pick_gate" if reader.operands[0] == node.results[0].name else "pick_up"
    makers = [view.makers[name].op for name in node.operands if name in view.makers]
    if node.op in {"einsum", "expert_linear"} and "dispatch" in makers:
        return "gate_up" if {each.op for each in readers} == {"select"} else "up"
    if node.op == "expert_linear" and any(each.op == "collect" for each in readers):
        return "down"
    return ""


def _added(node: Node, view: _View) -> str:
    """Return the module in this one whose result is added to what goes around it; empty for any other addition."""
    children: list[str] = []
    if not view.parameters.isdisjoint(node.operands):
        return ""
    for name in node.operands:
        maker = view.makers.get(name)
        inside = maker is not None and maker.module.startswith(f"{node.module}.")
        children.append(maker.module[len(node.module) + 1 :].partition(".")[0] if maker and inside else "")
    named = [child for child in children if child]
    return named[0] if len(named) == 1 and len(children) == 2 and not named[0].isdigit() else ""


def _parent(path: str) -> str:
    return path.rpartition(".")[0]
