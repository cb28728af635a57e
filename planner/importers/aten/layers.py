"""Repeated layers, found by structure: a flat block with `layers.0 …`, `layers.1 …` → one with a `Repeat`.

The lists are those of the module tree, outer ones first; a list of which nothing repeats stays written out, and then
the lists in it are looked at. Where the first layer differs, or the first three do, the others are still one block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from ...core.graph import Block, Module, Node, Parameter, Repeat, Value
from ...core.layers import Layers, list_of, templates
from ...ops import OPS
from .runs import Run, Wiring, index_in, layers_of, runs, within


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded:
    """A block with its repeated layers.

    Parameters
    ----------
    renamed
        Value that was read after the layers → the name that it has now.
    """

    block: Block
    modules: tuple[Module, ...]
    renamed: Mapping[str, str]


def find_layers(block: Block, modules: tuple[Module, ...]) -> Folded:
    """Return the block with every run of equal layers as one `Repeat`.

    Parameters
    ----------
    block
        A root block; its names have the index of a layer as a token, `model.layers.3.mlp/swiglu`.
    modules
        Its module tree, parents before children.
    """
    folded = Folded(block=block, modules=modules, renamed={})
    for path in _lists(modules):
        folded = _fold_list(path, folded)
    return folded


def _lists(modules: Iterable[Module]) -> list[str]:
    """Return the paths of lists with at least two layers, outer ones first."""
    counts: dict[str, int] = {}
    for module in modules:
        path, _, token = module.path.rpartition(".")
        # A list that is itself called like a range could not be told from one.
        if token.isdigit() and path and list_of(path)[1] is None:
            counts[path] = counts.get(path, 0) + 1
    return sorted((path for path, count in counts.items() if count > 1), key=lambda path: path.count("."))


def _fold_list(path: str, folded: Folded) -> Folded:
    best: list[Run] = []
    for block in (folded.block, _gathered(path, folded.block)):
        wiring = Wiring(block)
        found = list(runs(layers_of(path, block, wiring, folded.modules), wiring))
        if sum(run.count * run.period for run in found) > sum(run.count * run.period for run in best):
            best, folded = found, replace(folded, block=block)
    # From the last on, so that positions of those before stay.
    for run in reversed(best):
        folded = _fold_run(path, run, folded)
    return folded


def _gathered(path: str, block: Block) -> Block:
    """Return the block with what stands between the layers of a list, and does not need them, before the first."""
    places = [i for i, item in enumerate(block.body) if index_in(path, _home(item)) is not None]
    if not places:
        return block
    between = block.body[places[0] : places[-1] + 1]
    late: set[str] = set()
    moved: list[Node | Repeat] = []
    kept: list[Node | Repeat] = []
    for item in between:
        if index_in(path, _home(item)) is None and late.isdisjoint(item.operands):
            moved.append(item)
        else:
            kept.append(item)
            late.update(value.name for value in item.results)
    return replace(block, body=(*block.body[: places[0]], *moved, *kept, *block.body[places[-1] + 1 :]))


def _home(item: Node | Repeat) -> str:
    return item.module if isinstance(item, Node) else item.name


def _fold_run(path: str, run: Run, folded: Folded) -> Folded:
    """Return the block with the layers of a run as one `Repeat`."""
    block = folded.block
    start, stop = run.layers[0].start, run.last + run.length
    first = run.layers[0].index
    name = _name(path, run, folded.modules)
    homes = dict(zip((layer.path for layer in run.layers), templates(name, run.period), strict=True))
    renamed = _renaming(homes)
    items = [item for item in block.body[start : start + run.length] if isinstance(item, Node)]
    body, inputs = _body(run, items, renamed, block)
    places = list(run.carried)
    repeated = Block(
        inputs=inputs,
        parameters=tuple(replace(p, name=renamed(p.name)) for p in block.parameters if _under(p.name, homes)),
        body=body,
        outputs=tuple(body[position].results[number].name for position, number in places),
    )
    results = tuple(
        Value(name=name if index == 0 else f"{name}:{index}", meta=value.meta)
        for index, value in enumerate(inputs[: len(places)])
    )
    # Names of what the last iteration carries out.
    last = [block.body[run.last + position].results[number].name for position, number in places]
    operands = [run.slots[run.carried[place][0]] for place in places] + list(run.captured)
    repeat = Repeat(
        name=name, count=run.count, block=repeated, operands=tuple(operands), results=results
    )  # fmt: skip
    after = dict(zip(last, (value.name for value in results), strict=True))
    indices = range(first, first + run.count * run.period)

    def gone(name: str) -> bool:
        return (index := index_in(path, name)) is not None and index in indices

    return Folded(
        block=_replaced(block, start, stop, repeat, after, gone),
        modules=tuple(_modules(folded.modules, homes, gone, renamed)),
        renamed={old: after.get(new, new) for old, new in folded.renamed.items()} | after,
    )


def _name(path: str, run: Run, modules: Iterable[Module]) -> str:
    """Return the name of a repeat: the list's, with the range of layers unless it runs through all alike."""
    first, count = run.layers[0].index, run.count * run.period
    indices = {token for m in modules for head, _, token in (m.path.rpartition("."),) if head == path}
    if run.period == 1 and indices == {str(i) for i in range(count)}:
        return path
    return f"{path}.{Layers(first, count)}"


def _renaming(homes: Mapping[str, str]) -> Callable[[str], str]:
    """Return what puts the token for the index into a name."""

    def renamed(name: str) -> str:
        return next((new + name[len(old) :] for old, new in homes.items() if within(name, old)), name)

    return renamed


def _under(name: str, homes: Iterable[str]) -> bool:
    return any(within(name, home) for home in homes)


def _body(
    run: Run, items: list[Node], renamed: Callable[[str], str], block: Block
) -> tuple[tuple[Node, ...], tuple[Value, ...]]:
    """Return the operators of an iteration, and the inputs that they read."""
    metas = Wiring(block).metas
    makers = {value.name: (item, number) for item in block.body for number, value in enumerate(item.results)}
    given: dict[tuple[int, int], str] = {}
    inputs: list[Value] = []
    for place, slots in run.carried.items():
        position, _ = place
        wanted = "hidden" if len(run.carried) == 1 else re.split(r"[./]", items[position].name)[-1]
        inputs.append(Value(name=_unlike(wanted, inputs), meta=metas[run.slots[slots[0]]]))
        given |= dict.fromkeys(slots, inputs[-1].name)
    for outer, slots in run.captured.items():
        inputs.append(Value(name=_unlike(_speaking(outer, makers), inputs), meta=metas[outer]))
        given |= dict.fromkeys(slots, inputs[-1].name)
    body = tuple(
        replace(
            item,
            name=renamed(item.name),
            module=renamed(item.module),
            origin=renamed(item.origin),
            operands=tuple(given.get((at, number), renamed(name)) for number, name in enumerate(item.operands)),
            results=tuple(replace(value, name=renamed(value.name)) for value in item.results),
        )
        for at, item in enumerate(items)
    )
    return body, tuple(inputs)


def _speaking(outer: str, makers: Mapping[str, tuple[Node | Repeat, int]]) -> str:
    """Return what a captured value is called inside: like the result of its operator, or by its last word."""
    if outer in makers:
        maker, number = makers[outer]
        results = OPS[maker.op].results if isinstance(maker, Node) else ()
        if number < len(results):
            return results[number]
    words = re.sub(r"\W+", "_", re.split(r"[./]", outer.partition(":")[0])[-1])
    return f"value_{words}" if words[0].isdigit() else words


def _unlike(wanted: str, inputs: Iterable[Value]) -> str:
    taken = {value.name for value in inputs}
    names = [wanted, *(f"{wanted}_{number}" for number in range(2, len(taken) + 3))]
    return next(name for name in names if name not in taken)


def _replaced(
    block: Block, start: int, stop: int, repeat: Repeat, after: Mapping[str, str], gone: Callable[[str], bool]
) -> Block:
    """Return the block with a repeat in place of its layers, whose parameters go with them."""

    def parameter_stays(parameter: Parameter) -> bool:
        return not gone(parameter.name)

    rest = (
        replace(item, operands=tuple(after.get(name, name) for name in item.operands)) for item in block.body[stop:]
    )
    return replace(
        block,
        parameters=tuple(filter(parameter_stays, block.parameters)),
        body=(*block.body[:start], repeat, *rest),
        outputs=tuple(after.get(name, name) for name in block.outputs),
    )


def _modules(
    modules: Iterable[Module], homes: Mapping[str, str], gone: Callable[[str], bool], renamed: Callable[[str], str]
) -> Iterable[Module]:
    for module in modules:
        if _under(module.path, homes):
            yield replace(module, path=renamed(module.path))
        elif not gone(module.path):
            yield module
