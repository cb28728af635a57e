"""What a model can be cut between, and the decisions that put a cut down.

A *unit* is a layer, an iteration of a repeated block, or an operator outside of the layers that depends on a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

from ..core.graph import ModelGraph, Node, Repeat
from ..core.layers import Layers, list_of
from ..core.plan import StageDecision
from ..errors import PlannerError
from .place import Places, deep_values


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """Something that runs on one stage: an operator, or iteration `layer` of a repeated block."""

    item: str
    layer: int = 0


def units(graph: ModelGraph) -> tuple[Unit, ...]:
    """Return the units of a model, in the order in which they run."""
    return tuple(_units(graph))


def unit_names(graph: ModelGraph) -> tuple[str, ...]:
    """Return the path of every unit, in the same order."""
    items = {item.name: item for item in graph.root.body}
    found = []
    for unit in units(graph):
        item = items[unit.item]
        found.append(item.name if isinstance(item, Node) else _target(item, unit.layer, unit.layer + 1))
    return tuple(found)


def _units(graph: ModelGraph) -> Iterator[Unit]:
    deep = deep_values(graph)
    for item in graph.root.body:
        if isinstance(item, Repeat):
            yield from (Unit(item=item.name, layer=layer) for layer in range(item.count))
        elif deep.intersection(value.name for value in item.results):
            yield Unit(item=item.name)


def decided(
    graph: ModelGraph, cuts: tuple[int, ...], place: Callable[[tuple[StageDecision, ...]], Places]
) -> tuple[StageDecision, ...]:
    """Return the decisions of a cut, without those on operators that go to their stage by themselves.

    Parameters
    ----------
    cuts
        First unit of every stage, and the number of units at the end.
    place
        Decisions → places.
    """
    listed = units(graph)
    stage_of = {unit: stage for stage, (a, b) in enumerate(pairwise(cuts)) for unit in listed[a:b]}
    items = {item.name: item for item in graph.root.body}
    found: list[StageDecision] = []
    for (name, stage), group in groupby(listed, key=lambda unit: (unit.item, stage_of[unit])):
        item = items[name]
        if isinstance(item, Node):
            found.append(StageDecision(target=name, stage=stage))
            continue
        layers = [unit.layer for unit in group]
        found.append(StageDecision(target=_target(item, layers[0], layers[-1] + 1), stage=stage))
    whole = tuple(found)
    wanted = place(whole)
    nodes = [d for d in whole if isinstance(items.get(d.target), Node)]
    if len(nodes) > MOST_TRIED:
        return whole
    for decision in reversed(nodes):
        fewer = tuple(d for d in found if d is not decision)
        if _same(place, fewer, wanted):
            found = list(fewer)
    return tuple(found)


MOST_TRIED = 64
"""Of models with more operators outside of layers, every operator is named."""


def _same(
    place: Callable[[tuple[StageDecision, ...]], Places], fewer: tuple[StageDecision, ...], wanted: Places
) -> bool:
    try:
        return place(fewer) == wanted
    except PlannerError:
        return False


def _target(repeat: Repeat, start: int, stop: int) -> str:
    """Return what names some iterations."""
    path, layers = list_of(repeat.name)
    whole = layers or Layers(0, repeat.count * repeat.period)
    part = whole.part(start * repeat.period, stop * repeat.period)
    last = f"-{part.last}" if part.count > 1 else ""
    step = f"+{part.step}" if part.count > 1 and part.step > 1 else ""
    return f"{path}.{part.first}{last}{step}"
