"""Which stage every operator and every layer runs on.

What a decision names runs where it says. Another operator runs on the last of the stages that it reads from, so that
the head follows the last layer; one that reads from none, such as an embedding, on the first stage that reads it. What
depends on no parameter is computed on each stage that reads it: positions and masks are cheaper made than sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..core.graph import ModelGraph, Node, Repeat
from ..core.layers import list_of
from ..core.plan import StageDecision
from ..errors import PlannerError
from .matching import Names


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The stages of a model's parts.

    Parameters
    ----------
    nodes
        Operator → stage, for operators that depend on a parameter.
    layers
        Repeat → the stage of each iteration.
    shared
        Operator that depends on no parameter → the stages that compute it.
    """

    nodes: dict[str, int]
    layers: dict[str, tuple[int, ...]]
    shared: dict[str, tuple[int, ...]]


def place(graph: ModelGraph, decisions: tuple[StageDecision, ...], count: int, names: Names) -> Places:
    """Return where everything runs.

    Parameters
    ----------
    count
        Number of stages.
    names
        Target and template → iterations that it names; `assign.span`.

    Raises
    ------
    PlannerError
        `pipeline.stage-unknown`, `pipeline.target-unmatched`, `pipeline.inside-layer`, `pipeline.layer-split`,
        `pipeline.layer-dropped`, `pipeline.backward-edge`, `pipeline.stage-empty`, `pipeline.loss-not-last`.
    """
    work = _Work(graph=graph, count=count, names=names)
    work.decide(decisions)
    work.follow()
    work.lead()
    work.check()
    return Places(nodes=work.nodes, layers=work.layers, shared=work.shared())


def deep_values(graph: ModelGraph) -> set[str]:
    """Return the parameters of the root, and the values that depend on one."""
    deep = {p.name for p in graph.root.parameters if p.initial != "given"}
    for item in graph.root.body:
        if isinstance(item, Repeat) or deep.intersection(item.operands):
            deep |= {value.name for value in item.results}
    return deep


@dataclass(slots=True, kw_only=True)
class _Work:
    graph: ModelGraph
    count: int
    names: Names
    nodes: dict[str, int] = field(default_factory=dict)
    layers: dict[str, tuple[int, ...]] = field(default_factory=dict)
    deep: set[str] = field(init=False)
    """Values that depend on a parameter."""
    of_value: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.deep = deep_values(self.graph)

    def decide(self, decisions: tuple[StageDecision, ...]) -> None:
        """Take the decisions, later ones over earlier ones."""
        for decision in decisions:
            if not 0 <= decision.stage < self.count:
                raise PlannerError(
                    "pipeline.stage-unknown",
                    f"{decision.target!r} is to run on stage {decision.stage}, and there are the stages 0 to "
                    f"{self.count - 1}.",
                    "Name one of these, or give each rank more stages.", subject=decision.target,
                )  # fmt: skip
            if not self._take(decision):
                raise PlannerError(
                    "pipeline.target-unmatched",
                    f"{decision.target!r}, for stage {decision.stage}, names nothing in {self.graph.name}.",
                    "Use paths of this model, such as layers.0-7.", subject=decision.target,
                )  # fmt: skip
        for repeat in self.graph.root.repeats:
            stages = self.layers.get(repeat.name, (-1,) * repeat.count)
            if -1 in stages:
                first = stages.index(-1)
                last = next((i for i in range(first, len(stages)) if stages[i] >= 0), len(stages)) - 1
                raise PlannerError(
                    "pipeline.layer-dropped",
                    f"No stage runs {_title(repeat, first, last)}.",
                    f"Give these layers a stage from 0 to {self.count - 1}.", subject=repeat.name,
                )  # fmt: skip

    def _take(self, decision: StageDecision) -> bool:
        taken = False
        for item in self.graph.root.body:
            if isinstance(item, Node):
                if self.deep.intersection(v.name for v in item.results) and self.names(decision.target, item.name):
                    self.nodes[item.name] = decision.stage
                    taken = True
                continue
            spans = [self.names(decision.target, template) for template in item.templates]
            if any(spans) and len(set(spans)) > 1:
                raise PlannerError(
                    "pipeline.layer-split",
                    f"{decision.target!r} names some of the {item.period} layers that alternate in {item.name}.",
                    "Cut between two rounds of them.", subject=decision.target,
                )  # fmt: skip
            span = spans[0]
            if span is None:
                inside = next((n.name for n in item.block.nodes if self.names(decision.target, n.name)), None)
                if inside:
                    raise PlannerError(
                        "pipeline.inside-layer",
                        f"{decision.target!r} names {inside}, and a layer runs on one stage as a whole.",
                        f"Name layers, such as {list_of(item.name)[0]}.0-{max(0, item.count // self.count - 1)}.",
                        subject=decision.target,
                    )  # fmt: skip
                continue
            old = self.layers.get(item.name, (-1,) * item.count)
            self.layers[item.name] = tuple(
                decision.stage if span[0] <= i < span[1] else stage for i, stage in enumerate(old)
            )
            taken = taken or span[0] < item.count
        return taken

    def follow(self) -> None:
        """Put operators that read from a stage on the last one that they read from."""
        for item in self.graph.root.body:
            if isinstance(item, Repeat):
                self.of_value.update({v.name: self.layers[item.name][-1] for v in item.results})
                continue
            if not self.deep.intersection(v.name for v in item.results):
                continue
            read = [self.of_value[name] for name in item.operands if name in self.of_value]
            if item.name not in self.nodes and read:
                self.nodes[item.name] = max(read)
            if item.name in self.nodes:
                self.of_value.update({v.name: self.nodes[item.name] for v in item.results})

    def lead(self) -> None:
        """Put the others on the first stage that reads them."""
        readers = self._readers()
        for item in reversed(self.graph.root.body):
            if isinstance(item, Repeat) or not self.deep.intersection(v.name for v in item.results):
                continue
            if item.name not in self.nodes:
                stages = [stage for v in item.results for stage, _ in readers.get(v.name, ())]
                self.nodes[item.name] = min(stages, default=0)
                for name in item.operands:
                    readers.setdefault(name, []).append((self.nodes[item.name], item.name))
            self.of_value.update({v.name: self.nodes[item.name] for v in item.results})

    def _readers(self) -> dict[str, list[tuple[int, str]]]:
        """Return value → stage and name of what reads it, of readers that have a stage."""
        found: dict[str, list[tuple[int, str]]] = {}
        for name, stage, reader in self._reads():
            found.setdefault(name, []).append((stage, reader))
        return found

    def _reads(self) -> Iterator[tuple[str, int, str]]:
        for item in self.graph.root.body:
            if isinstance(item, Node):
                if item.name in self.nodes:
                    yield from ((name, self.nodes[item.name], item.name) for name in item.operands)
                continue
            stages = self.layers[item.name]
            carried = len(item.results)
            yield from ((name, stages[0], _title(item, 0, 0)) for name in item.operands[:carried])
            for name in item.operands[carried:]:
                for stage in sorted(set(stages)):
                    at = stages.index(stage)
                    yield name, stage, _title(item, at, at)

    def check(self) -> None:
        """Hold the stages to their order, and each to have work."""
        for repeat in self.graph.root.repeats:
            stages = self.layers[repeat.name]
            for index in range(1, len(stages)):
                if stages[index] < stages[index - 1]:
                    raise _backward(
                        _title(repeat, index - 1, index - 1), stages[index - 1], _title(repeat, index, index),
                        stages[index],
                    )  # fmt: skip
        for name, stage, reader in self._reads():
            if name in self.of_value and self.of_value[name] > stage:
                raise _backward(name, self.of_value[name], reader, stage)
        filled = set(self.nodes.values()).union(*self.layers.values())
        for stage in range(self.count):
            if stage not in filled:
                raise PlannerError(
                    "pipeline.stage-empty",
                    f"Stage {stage} of {self.count} has nothing to run.",
                    "Give it a layer, or use fewer stages.", subject=str(stage),
                )  # fmt: skip
        loss = self.of_value.get(self.graph.root.outputs[0], 0)
        if loss != self.count - 1:
            raise PlannerError(
                "pipeline.loss-not-last",
                f"The loss of {self.graph.name} is computed on stage {loss}, and the last one is {self.count - 1}.",
                "Put what leads to the loss on the last stage.",
            )

    def shared(self) -> dict[str, tuple[int, ...]]:
        """Return the stages that compute what depends on no parameter."""
        wanted: dict[str, set[int]] = {}
        for name, stage, _ in self._reads():
            wanted.setdefault(name, set()).add(stage)
        found: dict[str, tuple[int, ...]] = {}
        for item in reversed(self.graph.root.body):
            if isinstance(item, Repeat) or item.name in self.nodes:
                continue
            stages = set().union(*(wanted.get(v.name, set()) for v in item.results)) or {0}
            found[item.name] = tuple(sorted(stages))
            for name in item.operands:
                wanted.setdefault(name, set()).update(stages)
        return found


def _title(repeat: Repeat, first: int, last: int) -> str:
    """Return the layers of some iterations, for people."""
    path, layers = list_of(repeat.name)
    start = first * repeat.period
    end = last * repeat.period + repeat.period - 1
    if layers is not None:
        start, end = layers.index(start), layers.index(end)
    return f"{path}.{start}" + (f"-{end}" if end > start else "")


def _backward(made: str, stage: int, reader: str, on: int) -> PlannerError:
    return PlannerError(
        "pipeline.backward-edge",
        f"{made} runs on stage {stage}, and {reader}, which reads it, on the earlier stage {on}.",
        f"Put {reader} on stage {stage} or a later one.", subject=reader,
    )  # fmt: skip
