"""`model.py`: the user's model on one device, with modules of torch where operators are such.

Its text holds no shapes of shards: under tensor parallelism the same lines run on local heads and columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ...core.assignment import AssignedNode, ParameterLayout, TrainingGraph
from ..explicit.classes import Call, fold
from ..explicit.distinct import Classes
from ..explicit.lines import WIDTH, Lines, Names
from ..explicit.members import Made, Member, assigned, reach
from ..explicit.program import ParameterUse, Program, Statement, containers, parent, programs, within
from ..explicit.wrap import assignment, wrapped
from ..explicit.write import ClassText, Writer
from .modules import TorchModule
from .texts import Texts

W = TypeVar("W", bound="ModelWriter")
OPERATORS = "from parallel import operators as ops"


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The text of `model.py` and what other files need to know of it.

    Parameters
    ----------
    root
        Name of the whole model's class.
    arguments
        Path of a module's class → the variables that its forward function takes, in order.
    functions
        Path of a module's class → how many forward functions it has.
    classes
        Path of a module → its class, and the text of that.
    kinds
        Path of a module that only holds others → `list` or `dict`.
    parameters
        Names of the parameters outside of the layers.
    """

    text: str
    root: str
    arguments: Mapping[str, tuple[str, ...]]
    functions: Mapping[str, int]
    classes: Mapping[str, tuple[str, str]]
    kinds: Mapping[str, str]
    parameters: tuple[str, ...]


def write_model(alone: TrainingGraph, modules: Mapping[str, TorchModule], texts: Texts) -> Model:
    """Return `model.py`.

    Parameters
    ----------
    alone
        The training graph of the model on one rank.
    """
    graph = alone.assignment.graph
    written = Classes(reserved=frozenset({"F", "nn", "ops", "torch"}))
    names = written.begin()
    arguments: dict[str, tuple[str, ...]] = {}
    functions: dict[str, int] = {}
    classes: dict[str, tuple[str, str]] = {}
    kinds: dict[str, str] = {}
    for writer in writers(alone, names, modules, texts, ModelWriter):
        for module, bodies in writer.bodies.items():
            wanted = next(m.class_name for m in graph.modules if m.path == module)
            found = writer.write(module)
            written.add(writer.scope, module, wanted, found)
            arguments[module] = tuple(name for name, _ in bodies[0].inputs)
            functions[module] = len(bodies)
            classes[module] = names[writer.scope, module], found.text
        kinds |= writer.lines.kinds
    text = "\n\n".join(each for each, _ in written.texts())
    head = [
        f'"""{graph.name}, as one device would run it; parallelize.py spreads it over ranks."""\n', "import torch",
        *(["import torch.nn.functional as F"] if "F." in text else []), "from torch import nn",
        *(["", OPERATORS] if "ops." in text else []),
    ]  # fmt: skip
    return Model(
        text="\n".join(head) + "\n\n\n" + text, root=names[0, ""], arguments=arguments, functions=functions,
        classes=classes, kinds=kinds, parameters=tuple(p.name for p in graph.root.parameters),
    )  # fmt: skip


def writers(
    alone: TrainingGraph, names: dict[tuple[int, str], str], modules: Mapping[str, TorchModule], texts: Texts,
    made: Callable[..., W],
) -> Iterator[W]:  # fmt: skip
    """Yield what writes the classes of each scope, the layers' before those that hold them.

    Parameters
    ----------
    names
        Scope and module path → class name, of the classes that are written before the next writer is asked for.
    made
        Makes a writer.
    """
    lists = containers(alone.assignment.graph)
    plain = [_with_modules(program, modules) for program in programs(alone)]
    own = [p.parameter.name for p in alone.scopes[0].assembly.parameters]
    tops = {
        index: fold(program, (*own, *(p.parameter.name for p in program.assembly.parameters)), lists)
        for index, program in enumerate(plain)
    }
    for index in (*range(1, len(tops)), 0):
        yield made(
            training=alone, scope=index, tops=tops, class_names=names, dtypes={}, marked={}, title="the whole model",
            modules=modules, texts=texts,
        )  # fmt: skip


def _with_modules(program: Program, modules: Mapping[str, TorchModule]) -> Program:
    """Take from calls of modules the parameters that these hold themselves."""
    statements = [
        replace(s, arguments=tuple(a for a in s.arguments if not isinstance(a, ParameterUse)))
        if isinstance(s.what, AssignedNode) and s.what.node.name in modules else s
        for s in program.statements
    ]  # fmt: skip
    return replace(program, statements=tuple(statements))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLines(Lines):
    """Lines without meshes: operators, calls of modules, loops over layers."""

    modules: Mapping[str, TorchModule]
    texts: Texts

    def _line(self, item: Statement | Call, names: Names, module: str) -> Iterator[str]:
        if isinstance(item, Call) or not isinstance(item.what, AssignedNode):
            yield from Lines._line(self, item, names, module)
            return
        node = item.what.node
        arguments = tuple(self._argument(a, names, module) for a in item.arguments)
        if node.name in self.modules:
            text = f"{reach(node.name, module, self.kinds)}({', '.join(arguments)})"
        else:
            text = self.texts.of(item.what, arguments, f"{next(iter(names.values()))}.device")
        yield from assignment([names[key] for key in item.defines], text, WIDTH)


@dataclass(slots=True, kw_only=True)
class ModelWriter(Writer):
    """Writes plain classes of torch."""

    modules: Mapping[str, TorchModule]
    texts: Texts

    def __post_init__(self) -> None:
        Writer.__post_init__(self)
        leaves = {parent(p.parameter.name) for p in self.training.scopes[self.scope].assembly.parameters}
        dicts = dict.fromkeys(leaves - self.modules.keys() - self.bodies.keys(), "dict")
        self.lines = ModelLines(
            training=self.training, scope=self.scope, loops=self.lines.loops, kinds={**self.lines.kinds, **dicts},
            functions=self.functions, dtypes={}, modules=self.modules, texts=self.texts,
        )  # fmt: skip

    def write(self, module: str) -> ClassText:
        """Return the text of one class."""
        own = self._leaves(module).get(module, [])
        start = ["super().__init__()"]
        start += [f"self.{_name(p)} = {_empty(p)}" for p in own]
        held = (assigned(token, m.expression()) for token, m in self._member(module).children.items())
        tied = (
            f"{reach(at, module, self.lines.kinds)}.weight = {reach(found.tied, module, self.lines.kinds)}"
            for at, found in self.modules.items()
            if found.tied and not module and not self.scope
        )
        lines = ["    def __init__(self) -> None:"]
        lines += [f"        {line}" for long in (*start, *held, *tied) for line in wrapped(long, WIDTH)]
        written: dict[str, str] = {}
        for body in self.bodies[module]:
            plain, _ = self._function(body, "", dict(self._numbered(body)))
            name = written.get(plain)
            if name is None:
                name = written[plain] = f"forward_{len(written) + 1}" if written else "forward"
                lines += ["", self._function(body, name, self._identifiers(body))[0]]
            self.functions[module, body.number] = name
        doc = f"{self.training.assignment.graph.name}: {module or 'the whole model'}"
        return ClassText(base="nn.Module", doc=doc, text="\n".join(lines) + "\n", spans=())

    def _member(self, module: str) -> Member:
        found = Writer._member(self, module)
        _as_dicts(found)
        for path, made in self.modules.items():
            if within(path, module) and path != module and self._home(path) == module:
                found.at(_below(path, module)).made = Made(made.made)
        return found

    def _home(self, path: str) -> str:
        """Return the class that holds a module of torch; empty if another scope does."""
        if not any(node.node.name == path for node in self.training.scopes[self.scope].assembly.nodes):
            return "?"
        at = parent(path)
        while at not in self.bodies and at:
            at = parent(at)
        return at

    def _weights(self, parameters: list[ParameterLayout]) -> str:
        return ", ".join(f'"{_name(p)}": {_empty(p)}' for p in parameters)

    def _class(self, scope: int, module: str, layered: bool, layer: str = "layer") -> str:
        return f"{self.class_names.get((scope, module), '?')}()"

    def _layered(self, module: str) -> bool:
        return False


def _as_dicts(member: Member) -> None:
    """Let modules that only hold parameters be dicts of them."""
    for child in member.children.values():
        if child.weights:
            child.updates = ()
            child.made, child.weights = Made(f"nn.ParameterDict({{{child.weights}}})"), ""
        _as_dicts(child)


def _name(p: ParameterLayout) -> str:
    return p.parameter.name.rpartition(".")[2]


def _empty(p: ParameterLayout) -> str:
    return f"nn.Parameter(torch.empty({', '.join(map(str, p.parameter.meta.shape))}))"


def _below(path: str, module: str) -> str:
    return path[len(module) + 1 :] if module else path
