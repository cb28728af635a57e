"""The stages of a plan as pieces of the model: each as it is planned, and as it is on one rank.

Names are those of the model in one piece but for the layers, whose token says which of them a stage has. The loss is
in no piece: the schedule takes it of what the last stage gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ...core.assignment import TrainingGraph
from ...core.graph import ModelGraph, Node
from ...core.layers import list_of
from ...core.stage import plain
from ..explicit.parts import Part, parts
from ..explicit.program import outside
from .modules import TorchModule, torch_modules
from .whole import whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one stage runs.

    Parameters
    ----------
    planned, alone
        Its part of the plan, and of the same model on one rank, the latter without the loss.
    modules
        Its modules of torch.
    """

    number: int
    planned: Part
    alone: Part
    modules: Mapping[str, TorchModule]

    @property
    def elsewhere(self) -> dict[str, str]:
        """Modules whose weight is tied to a parameter of a module on another stage → that parameter."""
        held = {found.path for found in self.modules.values()}
        return {
            f"{found.path}.weight": found.tied
            for found in self.modules.values()
            if found.tied and found.tied.rpartition(".")[0] not in held
        }


def pieces(training: TrainingGraph, loss: Node) -> tuple[Piece, ...]:
    """Return the pieces of a plan with stages, in their order."""
    assignment = training.assignment
    planned = parts(training)
    alone = [_without(part, loss) for part in parts(whole(assignment.graph, assignment.symbols))]
    for before, part in enumerate(alone[1:]):
        alone[before + 1] = _ordered(part, alone[before])
    return tuple(
        Piece(number=number, planned=one, alone=other, modules=torch_modules(other.training.assignment.graph))
        for number, (one, other) in enumerate(zip(planned, alone, strict=True))
    )


def _without(part: Part, loss: Node) -> Part:
    """Return a part without the operator of the loss, so that what it reads is what the part gives."""
    first, *runs = part.training.scopes
    if first.assembly.node(loss.name) is None:
        return part
    gone = {value.name for value in loss.results}
    fanouts = tuple(
        replace(f, readers=tuple(r for r in f.readers if r.node != loss.name)) if f.value == loss.operands[1] else f
        for f in first.fanouts
        if f.value not in gone
    )
    read = {f.value for f in fanouts if f.readers}
    assembly = replace(
        first.assembly,
        nodes=tuple(n for n in first.assembly.nodes if n.node.name != loss.name),
        inputs=tuple(entry for entry in first.assembly.inputs if entry[0] in read),
    )
    scopes = (replace(first, assembly=assembly, fanouts=tuple(f for f in fanouts if f.value in read)), *runs)
    assignment = part.training.assignment
    root = assignment.graph.root
    graph = replace(assignment.graph, root=replace(root, body=tuple(i for i in root.body if i.name != loss.name)))
    assignment = replace(assignment, graph=graph, assemblies=(assembly, *assignment.assemblies[1:]))
    return replace(part, training=TrainingGraph(assignment=assignment, scopes=scopes))


def _ordered(part: Part, before: Part) -> Part:
    """Return a part that takes what it receives in the order in which the part before gives it."""
    given = list(outside(before.training))
    at = {r.value: given.index(r.node) for r in part.received if r.node in given}
    first, *runs = part.training.scopes
    inputs = tuple(sorted(first.assembly.inputs, key=lambda entry: at.get(entry[0], len(given))))
    assembly = replace(first.assembly, inputs=inputs)
    assignment = replace(part.training.assignment, assemblies=(assembly, *part.training.assignment.assemblies[1:]))
    training = TrainingGraph(assignment=assignment, scopes=(replace(first, assembly=assembly), *runs))
    return replace(part, training=training)


def in_one_piece(graph: ModelGraph, staged: ModelGraph) -> Callable[[str], str]:
    """Return what gives an operator of the graph with stages its name in the graph in one piece."""
    prefixes: dict[str, str] = {}
    for repeat in staged.root.repeats:
        path, layers = list_of(repeat.name)
        first = layers.first if layers else 0
        for other in graph.root.repeats:
            its_path, its_layers = list_of(other.name)
            places = range(first, first + repeat.period)
            inside = its_layers is None or its_layers.first <= first <= its_layers.last
            if path == its_path and len(places) == other.period and inside:
                prefixes.update(zip(repeat.templates, other.templates, strict=True))

    def named(name: str) -> str:
        for before, after in prefixes.items():
            if name == before or name.startswith((f"{before}.", f"{before}/")):
                return after + name[len(before) :]
        return plain(name)

    return named
