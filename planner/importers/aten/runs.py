"""Runs of equal layers in a flat block: which consecutive modules of a list are one repeated block.

```text
layer     the operators of `list.i`, consecutive in the block
stretch   the operators of one iteration: of one layer, or of several that alternate
slot      an operand of a stretch that comes from outside of it
```

Stretches are one repeated block if their operators, names, shapes and wiring are equal, and each slot is *captured*
(the same value in every stretch) or *carried* (the same result of the stretch before). What is made inside may be read
outside only after the last stretch, and only if it is carried.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from ...core.graph import Block, Module, Node
from ...core.tensor import TensorMeta
from ...ops import OPS

PERIODS = range(1, 9)
"""How many layers may alternate."""

Place = tuple[int, int]
"""Operator within a stretch, and which of its results."""
Slot = tuple[int, int]
"""Operator within a stretch, and which of its operands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of a list: its path and index there, and where its operators stand in the body."""

    path: str
    index: int
    start: int
    stop: int
    signature: Hashable


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Layers that are one repeated block.

    Parameters
    ----------
    period, count
        Layers an iteration, and iterations.
    layers
        Those of the first iteration.
    last
        Where the operators of the last iteration start in the body.
    carried
        Result that is carried → the slots that read it.
    captured
        Outer value → the slots that read it.
    slots
        What every slot reads in the first iteration.
    """

    period: int
    count: int
    layers: tuple[Layer, ...]
    last: int
    carried: Mapping[Place, tuple[Slot, ...]]
    captured: Mapping[str, tuple[Slot, ...]]
    slots: Mapping[Slot, str]

    @property
    def length(self) -> int:
        """Operators of an iteration."""
        return self.layers[-1].stop - self.layers[0].start


class Wiring:
    """Who makes and who reads what in a block."""

    def __init__(self, block: Block) -> None:
        self.body = block.body
        self.metas: dict[str, TensorMeta] = {value.name: value.meta for value in block.inputs}
        self.metas |= {parameter.name: parameter.meta for parameter in block.parameters}
        self.makers: dict[str, tuple[int, int]] = {}
        self.readers: dict[str, list[int]] = {}
        for position, item in enumerate(block.body):
            for name in item.operands:
                self.readers.setdefault(name, []).append(position)
            for number, value in enumerate(item.results):
                self.metas[value.name] = value.meta
                self.makers[value.name] = (position, number)
        for name in block.outputs:
            self.readers.setdefault(name, []).append(len(block.body))

    def reads(self, start: int, stop: int) -> Iterator[tuple[Place, int]]:
        """Yield (result, position of a reader) of everything that a stretch makes."""
        for position in range(start, stop):
            for number, value in enumerate(self.body[position].results):
                for reader in self.readers.get(value.name, ()):
                    yield (position - start, number), reader


def layers_of(path: str, block: Block, wiring: Wiring, modules: tuple[Module, ...]) -> list[Layer]:
    """Return the layers of a list that stand alone: their operators follow each other, and nothing else reads theirs.

    A layer that is a single operator is no layer; its parent's code is where it is written.
    """
    owners: dict[int, list[int]] = {}
    for position, item in enumerate(block.body):
        index = index_in(path, item.module) if isinstance(item, Node) else index_in(path, item.name)
        if index is not None:
            owners.setdefault(index, []).append(position)
    found = []
    for index, positions in owners.items():
        start, stop = positions[0], positions[-1] + 1
        items = block.body[start:stop]
        home = f"{path}.{index}"
        alone = len(positions) == stop - start and all(
            isinstance(item, Node) and item.name != home and within(item.name, home) for item in items
        )
        if not alone or any(
            not start <= reader < stop
            for p in block.parameters
            if within(p.name, home)
            for reader in wiring.readers.get(p.name, ())
        ):
            continue
        signature = _signature(home, block, wiring, modules, start, stop)
        found.append(Layer(path=home, index=index, start=start, stop=stop, signature=signature))
    return sorted(found, key=lambda layer: layer.start)


def runs(layers: list[Layer], wiring: Wiring) -> Iterator[Run]:
    """Yield the runs among the layers of a list, from the first layer on, the longest of each start."""
    at = 0
    while at < len(layers):
        found = [run for period in PERIODS if (run := _run(layers[at:], period, wiring)) is not None]
        if not found:
            at += 1
            continue
        best = max(found, key=lambda run: (run.count * run.period, -run.period))
        yield best
        at += best.count * best.period


def index_in(path: str, module: str) -> int | None:
    """Return the index of the layer of a list that a path lies in; None for what lies elsewhere."""
    if not module.startswith(f"{path}."):
        return None
    token = module[len(path) + 1 :].replace("/", ".").partition(".")[0]
    return int(token) if token.isdigit() else None


def within(name: str, home: str) -> bool:
    """Return whether a name is that of a module or of something in it."""
    return name == home or (name.startswith(home) and name[len(home)] in "./")


def _signature(home: str, block: Block, wiring: Wiring, modules: tuple[Module, ...], start: int, stop: int) -> Hashable:
    """Return what two layers have in common if they differ at most in where their outer operands come from."""
    cut = len(home)
    own = tuple((p.name[cut:], p.meta, p.initial) for p in block.parameters if within(p.name, home))
    tree = tuple((m.path[cut:], m.class_name) for m in modules if within(m.path, home))
    nodes = []
    for item in block.body[start:stop]:
        assert isinstance(item, Node)
        # What is drawn at random differs by the layer anyway.
        attributes = tuple(pair for pair in item.attributes if pair[0] != "seed" or not OPS[item.op].layered)
        results = tuple(value.meta for value in item.results)
        operands = tuple(wiring.metas[name] for name in item.operands)
        nodes.append((item.op, attributes, item.name[cut:], item.module[cut:], operands, results))
    return own, tree, tuple(nodes)


def _run(layers: list[Layer], period: int, wiring: Wiring) -> Run | None:
    """Return the longest run of this period from the first of these layers on."""
    first = layers[:period]
    if len(first) < period or not _adjacent(first):
        return None
    start, length = first[0].start, first[-1].stop - first[0].start
    inner, slots = _operands(first, wiring)
    kinds: dict[Slot, Place | str] = {}
    count = 1
    while True:
        following = layers[count * period : (count + 1) * period]
        here = start + count * length
        if [layer.signature for layer in following] != [layer.signature for layer in first] or not _adjacent(
            layers[count * period - 1 : (count + 1) * period]
        ):
            break
        if any(reader >= here + length for _, reader in wiring.reads(here - length, here)):
            break
        wires, given = _operands(following, wiring)
        if wires != inner or given.keys() != slots.keys():
            break
        found = {slot: _kind(slots[slot], name, here - length, here, wiring) for slot, name in given.items()}
        kinds = kinds or {slot: kind for slot, kind in found.items() if kind is not None}
        if found != kinds:
            break
        count += 1
    carried, captured = _grouped(kinds)
    if not carried or any(len({slots[slot] for slot in those}) > 1 for those in carried.values()):
        return None
    # What else is read of the last iteration can be read only of one that is written out.
    last = start + (count - 1) * length
    leaving = {place for place, reader in wiring.reads(last, last + length) if reader >= last + length}
    if not leaving <= set(carried):
        count, last = count - 1, last - length
    if count < 2:
        return None
    return Run(
        period=period, count=count, layers=tuple(first), last=last, carried=carried, captured=captured, slots=slots
    )


def _adjacent(layers: list[Layer]) -> bool:
    return all(a.stop == b.start and a.index + 1 == b.index for a, b in pairwise(layers))


def _operands(layers: list[Layer], wiring: Wiring) -> tuple[dict[Slot, Place | str], dict[Slot, str]]:
    """Return where the operands of a stretch come from: its own results and parameters, and what is made outside."""
    start, stop = layers[0].start, layers[-1].stop
    inner: dict[Slot, Place | str] = {}
    outer: dict[Slot, str] = {}
    for position in range(start, stop):
        for number, name in enumerate(wiring.body[position].operands):
            slot, place = (position - start, number), wiring.makers.get(name)
            home = next((k for k, layer in enumerate(layers) if within(name, layer.path)), None)
            if place is not None and start <= place[0] < stop:
                inner[slot] = (place[0] - start, place[1])
            elif place is None and home is not None:
                inner[slot] = f"{home}{name[len(layers[home].path) :]}"
            else:
                outer[slot] = name
    return inner, outer


def _kind(first: str, name: str, before: int, here: int, wiring: Wiring) -> Place | str | None:
    """Return the result of the stretch before that a slot reads, or the value that it reads in all stretches."""
    if name == first:
        return name
    place = wiring.makers.get(name)
    return (place[0] - before, place[1]) if place is not None and before <= place[0] < here else None


def _grouped(
    kinds: Mapping[Slot, Place | str],
) -> tuple[dict[Place, tuple[Slot, ...]], dict[str, tuple[Slot, ...]]]:
    carried: dict[Place, tuple[Slot, ...]] = {}
    captured: dict[str, tuple[Slot, ...]] = {}
    for slot, kind in sorted(kinds.items()):
        if isinstance(kind, tuple):
            carried[kind] = (*carried.get(kind, ()), slot)
        else:
            captured[kind] = (*captured.get(kind, ()), slot)
    return carried, captured
