"""`model.py`: the user's model on one device, with modules of torch where operators are such.

Its text holds no shapes of shards: under tensor parallelism the same lines run on local heads and columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ...core.assignment import AssignedNode, ParameterLayout, TrainingGraph
from ...core.mesh import DeviceMesh
from ...ops import OPS, Local
from ..explicit.classes import Call, fold
from ..explicit.distinct import Classes
from ..explicit.lines import WIDTH, Lines, Names
from ..explicit.local import local_of
from ..explicit.members import Made, Member, assigned, reach
from ..explicit.program import ParameterUse, Program, Statement, containers, parent, programs, within
from ..explicit.wrap import assignment, wrapped
from ..explicit.write import ClassText, Writer
from .modules import TorchModule
from .problems import Problems

OPERATORS = "from parallel import operators as ops"
OPEN = ("split_heads", "reshape")
"""Operators whose lines may leave any one size open."""


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
    """

    text: str
    root: str
    arguments: Mapping[str, tuple[str, ...]]
    functions: Mapping[str, int]


def write_model(
    training: TrainingGraph, alone: TrainingGraph, modules: Mapping[str, TorchModule], problems: Problems, *, low: bool
) -> Model:
    """Return `model.py`.

    Parameters
    ----------
    training, alone
        The plan's training graph, and that of the same model on one rank.
    problems
        Told of lines that would differ from rank to rank.
    low
        Whether the model computes in fewer bits than fp32, in which the loss is taken.
    """
    graph = alone.assignment.graph
    lists = containers(graph)
    made = [_with_modules(program, modules) for program in programs(alone)]
    own = [p.parameter.name for p in alone.scopes[0].assembly.parameters]
    tops = {
        index: fold(program, (*own, *(p.parameter.name for p in program.assembly.parameters)), lists)
        for index, program in enumerate(made)
    }
    written = Classes(reserved=frozenset({"F", "nn", "ops", "torch"}))
    names = written.begin()
    texts = _Texts(training=training, alone=alone.assignment.mesh, problems=problems, low=low)
    arguments: dict[str, tuple[str, ...]] = {}
    functions: dict[str, int] = {}
    for index in (*range(1, len(tops)), 0):
        writer = ModelWriter(
            training=alone,
            scope=index,
            tops=tops,
            class_names=names,
            dtypes={},
            marked={},
            title="the whole model",
            modules=modules,
            texts=texts,
        )
        for module, bodies in writer.bodies.items():
            wanted = next(m.class_name for m in graph.modules if m.path == module)
            written.add(index, module, wanted, writer.write(module))
            arguments[module] = tuple(name for name, _ in bodies[0].inputs)
            functions[module] = len(bodies)
    text = "\n\n".join(each for each, _ in written.texts())
    head = [
        f'"""{graph.name}, as one device would run it; parallelize.py spreads it over ranks."""\n', "import torch",
        *(["import torch.nn.functional as F"] if "F." in text else []), "from torch import nn",
        *(["", OPERATORS] if "ops." in text else []),
    ]  # fmt: skip
    return Model(text="\n".join(head) + "\n\n\n" + text, root=names[0, ""], arguments=arguments, functions=functions)


def _with_modules(program: Program, modules: Mapping[str, TorchModule]) -> Program:
    """Take from calls of modules the parameters that these hold themselves."""
    statements = [
        replace(s, arguments=tuple(a for a in s.arguments if not isinstance(a, ParameterUse)))
        if isinstance(s.what, AssignedNode) and s.what.node.name in modules else s
        for s in program.statements
    ]  # fmt: skip
    return replace(program, statements=tuple(statements))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Texts:
    """The torch expression of an operator, the same on every rank."""

    training: TrainingGraph
    alone: DeviceMesh
    problems: Problems
    low: bool
    runs: dict[str, list[AssignedNode]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for assembly in self.training.assignment.assemblies:
            for node in assembly.nodes:
                self.runs.setdefault(node.node.origin or node.node.name, []).append(node)

    def of(self, node: AssignedNode, arguments: tuple[str, ...], device: str) -> str:
        """Return the expression of an operator on named operands."""
        operator = node.node
        if operator.op == "cross_entropy":
            return _loss(dict(operator.attributes), arguments, self.low)
        if any(made.node.origin for made in self.runs.get(operator.name, ())):
            parts = ", ".join(dict.fromkeys(made.node.op for made in self.runs[operator.name]))
            self.problems.add(operator.name, f"{operator.op} is computed in parts ({parts}) on shards of a dim that "
                              "torch's own call needs whole")  # fmt: skip
            return "…"
        symbols, mesh = self.training.assignment.symbols, self.training.assignment.mesh
        local = local_of(operator, node.strategy, arguments, symbols, self.alone)
        text = OPS[operator.op].torch(local)
        sharded = [local_of(operator, made.strategy, arguments, symbols, mesh) for made in self.runs[operator.name]]
        for each in sharded:
            found = _opened(text, OPS[operator.op].torch(each))
            if found != text and (not found or not _may_open(local, each)):
                self.problems.add(operator.name, f"its line holds sizes of a shard ({text}), and the model's own line "
                                  "has to serve all ranks")  # fmt: skip
                return text
            text = found
        text = text.replace("mesh.device", device)
        if "mesh." in text:
            self.problems.add(operator.name, f"{operator.op} asks the plan's runtime ({text}), which this form lacks")
        return text


def _may_open(whole: Local, shard: Local) -> bool:
    """Return whether an operator finds a size by itself that its line leaves open."""
    if whole.node.op != "expand":
        return whole.node.op in OPEN
    # Here -1 means what the operand has, so it can't be a size that is expanded.
    before, after = whole.operands[0], whole.results[0]
    kept = dict(zip(range(-len(before), 0), before, strict=True))
    return all(kept.get(d - len(after)) == size for d, size in enumerate(after) if size != shard.results[0][d])


def _opened(text: str, other: str) -> str:
    """Return a line with the only number that differs in another left open, as -1; empty if more differs."""
    ours, theirs = (re.findall(r"-?\d+|[^\d-]+|-", line) for line in (text, other))
    unlike = [place for place, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b]
    if len(ours) != len(theirs) or len(unlike) > 1:
        return ""
    if unlike and (not theirs[unlike[0]].lstrip("-").isdigit() or not ours[unlike[0]].lstrip("-").isdigit()):
        return ""
    return "".join("-1" if place in unlike else token for place, token in enumerate(ours))


def _loss(given: Mapping[str, object], arguments: tuple[str, ...], low: bool) -> str:
    smoothing = given.get("label_smoothing")
    options = [f"ignore_index={given['ignore_index']}", *([f"label_smoothing={smoothing!r}"] if smoothing else [])]
    logits, labels = arguments
    rows = f"{logits}.flatten(0, -2)" + ".float()" * low
    return f'F.cross_entropy({rows}, {labels}.flatten(), reduction="sum", {", ".join(options)})'


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLines(Lines):
    """Lines without meshes: operators, calls of modules, loops over layers."""

    modules: Mapping[str, TorchModule]
    texts: _Texts

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
    texts: _Texts

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
