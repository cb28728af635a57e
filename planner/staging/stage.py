"""Write a model's graph anew with its items in the order of stages.

- A value that a later stage reads comes there by an operator `receive`.
- A parameter that several stages read has a copy on each; so has what depends on no parameter.
- A repeated block is cut where its layers go to another stage; names in a part hold the range of its layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

from ..core.graph import Block, ModelGraph, Module, Node, Parameter, Repeat, Value
from ..core.layers import templates
from ..core.stage import RECEIVE, at_stage, received
from ..ops import OPS
from .part import part, part_name, part_results
from .place import Places


def stage(graph: ModelGraph, places: Places, count: int) -> ModelGraph:
    """Return the graph whose root items each run on one stage, in the order of `stages`."""
    work = _Work(graph=graph, places=places)
    body: list[Node | Repeat] = []
    stages: list[tuple[str, ...]] = []
    for index in range(count):
        items = list(work.items(index))
        body += items
        stages.append(tuple(item.name for item in items))
    root = Block(
        inputs=graph.root.inputs, parameters=work.parameters(), body=tuple(body), outputs=graph.root.outputs[:1]
    )
    logits = work.ends.get(graph.logits, graph.logits)
    return replace(graph, root=root, modules=tuple(work.modules()), stages=tuple(stages), logits=logits)


@dataclass(slots=True, kw_only=True)
class _Work:
    graph: ModelGraph
    places: Places
    owners: dict[str, list[int]] = field(default_factory=dict)
    """Parameter → the stages that hold it."""
    made: dict[str, tuple[int, Value]] = field(default_factory=dict)
    """Value that depends on a parameter → its stage, and itself."""
    shared: dict[str, int] = field(default_factory=dict)
    """Value that each stage computes → the stage that has it by its own name."""
    arrived: set[str] = field(default_factory=set)
    ends: dict[str, str] = field(default_factory=dict)
    """What a repeat that was cut gives in the end → its name as a result of the last part."""
    inputs: frozenset[str] = field(init=False)
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.inputs = frozenset(value.name for value in self.graph.root.inputs)
        self.names = frozenset(p.name for p in self.graph.root.parameters)

    def items(self, stage: int) -> Iterator[Node | Repeat]:
        """Yield what a stage runs, in order."""
        for item in self.graph.root.body:
            if isinstance(item, Repeat):
                yield from self._layers(item, stage)
            elif item.name in self.places.nodes:
                if self.places.nodes[item.name] == stage:
                    yield from self._arrivals(item.operands, stage)
                    self.made.update({v.name: (stage, v) for v in item.results})
                    yield replace(item, operands=self._operands(item.operands, stage))
            elif stage in self.places.shared[item.name]:
                yield self._copy(item, stage)

    def _layers(self, repeat: Repeat, stage: int) -> Iterator[Node | Repeat]:
        runs = [list(run) for _, run in groupby(range(repeat.count), self.places.layers[repeat.name].__getitem__)]
        at = next((i for i, run in enumerate(runs) if self.places.layers[repeat.name][run[0]] == stage), None)
        if at is None:
            return
        start, stop = runs[at][0], runs[at][-1] + 1
        operands = repeat.operands
        if at:
            before = part_results(repeat, runs[at - 1][0], start)
            operands = (*(v.name for v in before), *operands[len(before) :])
        yield from self._arrivals(operands, stage)
        results = part_results(repeat, start, stop)
        self.made.update({v.name: (stage, v) for v in results})
        if stop == repeat.count:
            self.ends.update(zip((v.name for v in repeat.results), (v.name for v in results), strict=True))
        yield part(repeat, start, stop, self._operands(operands, stage))

    def _arrivals(self, operands: Iterable[str], stage: int) -> Iterator[Node]:
        for value in operands:
            name = self.ends.get(value, value)
            if name not in self.made or self.made[name][0] == stage:
                continue
            here = received(name, stage)
            if here in self.arrived:
                continue
            self.arrived.add(here)
            metas = (self.made[name][1].meta,)
            yield Node(
                name=here, op=RECEIVE, operands=(name,), results=(Value(name=here, meta=metas[0]),),
                rule=OPS[RECEIVE].rule(metas, metas, {}), module="",
            )  # fmt: skip

    def _operands(self, operands: Iterable[str], stage: int) -> tuple[str, ...]:
        return tuple(self._here(name, stage) for name in operands)

    def _here(self, name: str, stage: int) -> str:
        """Return what a value or parameter is called on a stage."""
        name = self.ends.get(name, name)
        if name in self.made:
            return name if self.made[name][0] == stage else received(name, stage)
        if name in self.shared:
            return name if self.shared[name] == stage else at_stage(name, stage)
        if name in self.names:
            owners = self.owners.setdefault(name, [stage])
            if stage not in owners:
                owners.append(stage)
            return name if owners[0] == stage else at_stage(name, stage)
        return name

    def _copy(self, node: Node, stage: int) -> Node:
        first = self.places.shared[node.name][0]
        operands = self._operands(node.operands, stage)
        self.shared.update({v.name: first for v in node.results})
        if stage == first:
            return replace(node, operands=operands)
        return replace(
            node, name=at_stage(node.name, stage), operands=operands,
            results=tuple(replace(v, name=at_stage(v.name, stage)) for v in node.results),
            origin=at_stage(node.origin, stage) if node.origin else "",
        )  # fmt: skip

    def parameters(self) -> tuple[Parameter, ...]:
        """Return the root's parameters with the copies of those that several stages hold."""
        return tuple(
            p if not index else replace(p, name=at_stage(p.name, stage))
            for p in self.graph.root.parameters
            for index, stage in enumerate(self.owners.get(p.name, [0]))
        )

    def modules(self) -> Iterator[Module]:
        """Yield the module tree, with the modules of a layer once for each part."""
        split = {}
        for repeat in self.graph.root.repeats:
            stages = self.places.layers[repeat.name]
            bounds = [i for i in range(repeat.count + 1) if i in (0, repeat.count) or stages[i] != stages[i - 1]]
            names = [part_name(repeat, start, stop) for start, stop in pairwise(bounds)]
            split.update(dict.fromkeys(repeat.templates, (repeat, names)))
        for module in self.graph.modules:
            yield from _modules(module, split)


def _modules(module: Module, split: dict[str, tuple[Repeat, list[str]]]) -> Iterator[Module]:
    for template, (repeat, names) in split.items():
        if module.path == template or module.path.startswith(f"{template}."):
            place = repeat.templates.index(template)
            rest = module.path[len(template) :]
            yield from (replace(module, path=templates(name, repeat.period)[place] + rest) for name in names)
            return
    yield module
