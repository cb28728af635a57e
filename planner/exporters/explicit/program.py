"""The training graph as statements in execution order, with the variables that they define and use.

A *key* is a variable: a value, in the layout that one group of its readers wants. Readers with equal operand and raw
layouts form a group.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

from ...core.assignment import Assembly, AssignedNode, Fanout, TrainingGraph
from ...core.graph import ModelGraph
from ...core.layers import list_of
from ...core.layout import Layout
from ...core.segments import Segments
from ...errors import ExportError

CONTAINERS = ("ModuleList", "ModuleDict", "Sequential")
"""Classes of modules that only hold others."""
Key = tuple[str, int]
"""Value name and group index; group -1 is the value as its producer made it, or the parameter as it is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterUse:
    """A parameter that a statement reads as it is stored."""

    name: str


Argument = Key | ParameterUse


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One line (or call) of a forward function.

    Parameters
    ----------
    module
        Path of the class that the line belongs to.
    what
        The node, the fan-out, or the run that the line stands for.
    segment
        The segment that it is computed again with; empty for none.
    """

    module: str
    what: AssignedNode | Fanout | Assembly
    arguments: tuple[Argument, ...]
    defines: tuple[Key, ...]
    segment: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The statements of the root or of one run, its arguments and what it returns."""

    assembly: Assembly
    inputs: tuple[Key, ...]
    statements: tuple[Statement, ...]
    outputs: tuple[Key, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Readers of a value that get the same tensor."""

    layout: Layout
    raw: Layout | None
    readers: tuple[int, ...]


def groups(fanout: Fanout) -> tuple[Group, ...]:
    """Return the reader groups of a fan-out, in order of the first reader."""
    found: dict[tuple[Layout, Layout | None], list[int]] = {}
    for position, reader in enumerate(fanout.readers):
        raw = reader.raw
        if raw is None:
            # A reader that gives no gradient joins one that asks for the same layout.
            raw = next((r.raw for r in fanout.readers if r.layout == reader.layout and r.raw is not None), None)
        found.setdefault((reader.layout, raw), []).append(position)
    return tuple(Group(layout=key[0], raw=key[1], readers=tuple(members)) for key, members in found.items())


def is_plain(fanout: Fanout) -> bool:
    """Return whether the value goes to all readers as it is, and its gradient comes back as it is."""
    if fanout.apart or fanout.host:
        return False
    moves = any(d.redistribution.steps for d in (*fanout.forward, *fanout.backward))
    return not moves and len(groups(fanout)) == 1


def programs(training: TrainingGraph) -> tuple[Program, ...]:
    """Return the program of the root, then of each run."""
    arguments = _arguments(training)
    lists = containers(training.assignment.graph)
    return tuple(_program(training, index, arguments, lists) for index in range(len(training.scopes)))


def containers(graph: ModelGraph) -> frozenset[str]:
    """Return the paths of modules that are no classes: what they run is written in the class around them.

    They only hold others, or are one operator each time that they run, as an activation that runs several times.
    """
    lists = {list_of(repeat.name)[0] for repeat in graph.root.repeats}
    parents = {parent(m.path) for m in graph.modules}
    single = {m.path for m in graph.modules} - parents
    for block in graph.blocks:
        single -= {a.module for a, b in pairwise(block.nodes) if a.module == b.module}
    return frozenset(
        m.path for m in graph.modules if m.path and (m.class_name in CONTAINERS or m.path in lists or m.path in single)
    )


def owner(node: AssignedNode, lists: Collection[str]) -> str:
    """Return the class that a node's line belongs to: the parent of a module that is just this operator."""
    name = node.node.origin or node.node.name
    module = node.node.module
    return home(parent(module) if name == module else module, lists)


def home(module: str, lists: Collection[str]) -> str:
    """Return the path of the class around or at a module."""
    while module in lists:
        module = parent(module)
    return module


def parent(module: str) -> str:
    """Return the path above; empty for the topmost."""
    head, _, _ = module.rpartition(".")
    return head


def _arguments(training: TrainingGraph) -> dict[tuple[int, str, int], Argument]:
    """Return what each operand slot (scope, node, position) is given."""
    table: dict[tuple[int, str, int], Argument] = {}
    for own, scope in enumerate(training.scopes):
        for fanout in scope.fanouts:
            plain = is_plain(fanout)
            for index, group in enumerate(groups(fanout)):
                for position in group.readers:
                    reader = fanout.readers[position]
                    argument: Argument = (fanout.value, -1 if plain else index)
                    if plain and fanout.kind == "parameter":
                        argument = ParameterUse(name=fanout.value)
                    carried = reader.node == training.scopes[reader.scope].assembly.title
                    home = own if carried else reader.scope
                    table[home, reader.node, reader.operand] = argument
    return table


def _program(
    training: TrainingGraph, index: int, table: dict[tuple[int, str, int], Argument], lists: Collection[str]
) -> Program:
    scope = training.scopes[index]
    assembly = scope.assembly
    fanouts = {f.value: f for f in scope.fanouts}
    segments = Segments.of(assembly, index)
    statements: list[Statement] = []
    top = assembly.templates[0]
    inputs = [(name, -1) for name, _, _ in assembly.inputs]
    given = [f for name, _, _ in assembly.inputs if (f := fanouts.get(name)) and not is_plain(f)]
    for fanout in given:
        if not segments.around(fanout):
            statements += _reshards(fanout, top)
    waiting: list[Fanout] = []
    for item in _ordered(training, index):
        segment = item.segment if isinstance(item, AssignedNode) else ""
        if waiting and segment != statements[-1].segment:
            statements += _after(statements, waiting, lists)
            waiting.clear()
        if isinstance(item, Assembly):
            arguments = _loop_arguments(item, table, training)
            module = home(item.path, lists)
            defines = tuple((name, -1) for name in item.results)
        else:
            arguments = tuple(table[index, item.node.name, i] for i in range(len(item.node.operands)))
            module = owner(item, lists)
            defines = tuple((value.name, -1) for value in item.node.results)
        made = Statement(module=module, what=item, arguments=arguments, defines=defines, segment=segment)
        statements.append(made)
        for fanout in [f for name, _ in defines if (f := fanouts.get(name)) and not is_plain(f)]:
            if segment and not segments.around(fanout):
                waiting.append(fanout)
            else:
                statements += _reshards(fanout, module, segment)
    statements += _after(statements, waiting, lists)
    apart = [f for f in given if segments.around(f)]
    apart += [f for f in scope.fanouts if f.kind == "parameter" and not is_plain(f)]
    _insert(statements, apart, training, lists, segments)
    if assembly.name:
        outputs = [table[index, assembly.title, i] for i in range(len(assembly.carried))]
        inputs += _captured(assembly, table, index)
    else:
        outputs = [table[0, reader, 0] for reader in outside(training)]
    return Program(
        assembly=assembly, inputs=tuple(inputs), statements=tuple(statements),
        outputs=tuple(o for o in outputs if isinstance(o, tuple)),
    )  # fmt: skip


def outside(training: TrainingGraph) -> tuple[str, ...]:
    """Return who reads values of the root and is none of its nodes: other stages, and in the end who wants the loss."""
    root = training.scopes[0]
    own = {n.node.name for n in root.assembly.nodes} | {run.assembly.title for run in training.scopes[1:]}
    loss = training.assignment.graph.root.outputs[0]
    readers = [
        (fanout.value == loss, reader.node)
        for fanout in root.fanouts
        if fanout.kind == "activation"
        for reader in fanout.readers
        if reader.scope == 0 and reader.node not in own
    ]
    return tuple(node for _, node in sorted(readers, key=lambda pair: pair[0]))


def _ordered(training: TrainingGraph, index: int) -> Iterator[AssignedNode | Assembly]:
    """Yield a scope's nodes in order; for the root, the runs where the graph has the repeat."""
    assemblies = training.assignment.assemblies
    if index:
        yield from assemblies[index].nodes
        return
    by_origin: dict[str, list[AssignedNode]] = {}
    for node in assemblies[0].nodes:
        by_origin.setdefault(node.node.origin or node.node.name, []).append(node)
    for item in training.assignment.graph.root.body:
        if item.name in by_origin:
            yield from by_origin[item.name]
        else:
            yield from (run for run in assemblies[1:] if run.name == item.name)


def _reshards(fanout: Fanout, module: str, segment: str = "") -> list[Statement]:
    defines = tuple((fanout.value, i) for i in range(len(groups(fanout))))
    arguments = ((fanout.value, -1),)
    return [Statement(module=module, what=fanout, arguments=arguments, defines=defines, segment=segment)]


def _after(statements: list[Statement], waiting: list[Fanout], lists: Collection[str]) -> list[Statement]:
    """Return what brings the results of the last segment to their readers, in the class around the segment."""
    if not waiting:
        return []
    segment = statements[-1].segment
    module = home(common([s.module for s in statements if s.segment == segment]), lists)
    return [statement for fanout in waiting for statement in _reshards(fanout, module)]


def _loop_arguments(
    run: Assembly, table: dict[tuple[int, str, int], Argument], training: TrainingGraph
) -> tuple[Argument, ...]:
    carried = [table[0, run.title, i] for i in range(len(run.inputs))]
    index = training.assignment.assemblies.index(run)
    return (*carried, *_captured(run, table, index))


def _captured(run: Assembly, table: dict[tuple[int, str, int], Argument], index: int) -> list[Key]:
    """Return the outer variables and parameters that a run's nodes read, each once."""
    names = {inner for inner, _ in run.operands[len(run.inputs) :]}
    found: dict[Key, None] = {}
    for node in run.nodes:
        for position, operand in enumerate(node.node.operands):
            argument = table[index, node.node.name, position]
            if operand in names:
                found[argument if isinstance(argument, tuple) else (argument.name, -1)] = None
    return list(found)


def _insert(
    statements: list[Statement], fanouts: list[Fanout], training: TrainingGraph, lists: Collection[str],
    segments: Segments,
) -> None:  # fmt: skip
    """Put the reshard of each parameter, or input, before its first reader, in the class that holds all its readers."""
    classes = {s.module for s in statements}
    for fanout in fanouts:
        readers = {r.node for r in fanout.readers}
        runs = [training.assignment.assemblies[r.scope] for r in fanout.readers if r.scope]
        using = [
            i for i, s in enumerate(statements)
            if (isinstance(s.what, AssignedNode) and s.what.node.name in readers) or s.what in runs
        ]  # fmt: skip
        if not using:
            raise ExportError("export.unread-parameter", f"No operator reads {fanout.value}.")
        leaf = parent(fanout.value)
        own = [leaf if leaf in classes else home(parent(leaf), lists)] if fanout.kind == "parameter" else []
        module = home(common([statements[i].module for i in using] + own), lists)
        segment = segments.around(fanout)
        place = _place(statements, using[0], module, segment, lists)
        defines = tuple((fanout.value, i) for i in range(len(groups(fanout))))
        argument: Argument = ParameterUse(name=fanout.value) if own else (fanout.value, -1)
        made = Statement(module=module, what=fanout, arguments=(argument,), defines=defines, segment=segment)
        statements.insert(place, made)


def _place(statements: list[Statement], reader: int, module: str, segment: str, lists: Collection[str]) -> int:
    """Return where to put the reshard of what is first read at a place: before the child in which that is.

    One of a segment stays in it, and one of no segment comes before the segment in which it would be.
    """
    place = reader
    if statements[place].module != module:
        child = child_of(module, statements[place].module, lists)
        place = next(i for i, s in enumerate(statements) if within(s.module, child))
    if segment:
        return max(place, next(i for i, s in enumerate(statements) if s.segment == segment))
    around = statements[place].segment
    first = next(i for i, s in enumerate(statements) if s.segment == around) if around else place
    return place if first == place else _place(statements, first, module, segment, lists)


def common(modules: list[str]) -> str:
    """Return the innermost module that contains all of these."""
    split = [m.split(".") if m else [] for m in modules]
    shared = []
    for tokens in zip(*split, strict=False):
        if len(set(tokens)) > 1:
            break
        shared.append(tokens[0])
    return ".".join(shared)


def within(module: str, ancestor: str) -> bool:
    """Return whether a path is `ancestor` or lies below it."""
    return not ancestor or module == ancestor or module.startswith(f"{ancestor}.")


def child_of(ancestor: str, module: str, lists: Collection[str]) -> str:
    """Return the class below `ancestor` on the way to `module`; what only holds others is no class of its own."""
    rest = (module[len(ancestor) + 1 :] if ancestor else module).split(".")
    paths = (".".join([*([ancestor] if ancestor else []), *rest[: count + 1]]) for count in range(len(rest)))
    return next((path for path in paths if path not in lists), module)
