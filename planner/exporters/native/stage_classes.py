"""The classes of stages: each takes from the model in one piece what it runs, and has its own forward function.

A module that a stage runs as a whole is the model's own. Only of a module of which it runs a part, a stage has a class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from ...core.assignment import Assembly, ParameterLayout
from ...core.layers import Layers
from ..explicit.classes import Body, Call, uses
from ..explicit.lines import WIDTH, Names
from ..explicit.members import Member, assigned, is_name, reach
from ..explicit.program import Key, within
from ..explicit.wrap import wrapped
from ..explicit.write import ClassText
from .model import Model, ModelLines, ModelWriter, writers
from .pieces import Piece
from .problems import Problems
from .texts import Texts


@dataclass(frozen=True, slots=True, kw_only=True)
class StageClasses:
    """What is written for the stages, and what is known of their modules.

    Parameters
    ----------
    tops
        Name of the class of each stage.
    layers
        Which layers each takes, where the classes are given that; else none.
    arguments, functions
        Stage → path of a module's class → what its forward function takes, and how many of them it has.
    """

    text: str
    tops: tuple[str, ...]
    layers: tuple[Layers, ...]
    arguments: tuple[Mapping[str, tuple[str, ...]], ...]
    functions: tuple[Mapping[str, int], ...]


def write_classes(pieces: tuple[Piece, ...], model: Model, texts: Texts, reserved: frozenset[str]) -> StageClasses:
    """Return the classes of all stages.

    Parameters
    ----------
    reserved
        Names that mean something else in the file.
    """
    written = _Written(taken=set(reserved) | {name for name, _ in model.classes.values()})
    tops: list[str] = []
    arguments: list[dict[str, tuple[str, ...]]] = []
    functions: list[dict[str, int]] = []
    layers = _layers(pieces)
    for piece in pieces:
        arguments.append({})
        functions.append({})
        names: dict[tuple[int, str], str] = {}
        made = partial(
            StageWriter, model=model, number=piece.number, elsewhere=frozenset(piece.elsewhere.values()),
            problems=texts.problems, layered=bool(layers),
        )  # fmt: skip
        for writer in writers(piece.alone.training, names, piece.modules, texts, made):
            for module, bodies in writer.bodies.items():
                arguments[-1][module] = tuple(name for name, _ in bodies[0].inputs)
                functions[-1][module] = len(bodies)
                known, code = model.classes[texts.named(module)]
                if module and (writer.scope or writer.plain(module) == code):
                    names[writer.scope, module] = known
                else:
                    names[0, module] = written.add(known, module, writer.write(module).text, piece.number)
        tops.append(names[0, ""])
    return StageClasses(
        text="\n\n".join(written.texts(pieces[0].alone.training.assignment.graph.name)), tops=tuple(tops),
        layers=layers, arguments=tuple(arguments), functions=tuple(functions),
    )  # fmt: skip


def _layers(pieces: tuple[Piece, ...]) -> tuple[Layers, ...]:
    """Return the layers of each stage, where each has one run of them; else none."""
    runs = [piece.alone.training.assignment.assemblies[1:] for piece in pieces]
    return tuple(own[0].layers for own in runs) if all(len(own) == 1 for own in runs) else ()


@dataclass(slots=True, kw_only=True)
class _Written:
    """The classes that were written, each once for all stages whose parts are alike."""

    taken: set[str]
    names: dict[tuple[str, str, str], str] = field(default_factory=dict)
    stages: dict[str, list[int]] = field(default_factory=dict)

    def add(self, whole: str, module: str, text: str, stage: int) -> str:
        """Return the name of the class of a part of a module, whose class is `whole`."""
        key = (whole, module, text)
        if key not in self.names:
            name = f"{whole}Stage{stage}"
            while name in self.taken:
                name += "_"
            self.names[key] = name
            self.taken.add(name)
        self.stages.setdefault(self.names[key], []).append(stage)
        return self.names[key]

    def texts(self, title: str) -> Iterator[str]:
        """Yield the text of every class."""
        for (_, module, text), name in self.names.items():
            stages = self.stages[name]
            who = f"stage {stages[0]} runs" if len(stages) == 1 else f"stages {', '.join(map(str, stages))} run"
            if len(stages) > 2 and stages[-1] - stages[0] == len(stages) - 1:
                who = f"stages {stages[0]} to {stages[-1]} run"
            doc = f"{title}: what {who} of {module or 'the model'}."
            yield f'class {name}(nn.Module):\n    """{doc}"""\n\n{text}'


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLines(ModelLines):
    """Lines of a stage, whose lists hold its own layers alone."""

    def _layers(self, run: Assembly, module: str) -> list[str]:
        runs = sum(a.path == run.path for a in self.training.assignment.assemblies)
        if run.period > 1 or runs > 1 or not self._is_whole(run):
            return ModelLines._layers(self, run, module)
        held = reach(run.path, module, self.kinds)
        return [held if self.kinds.get(run.path) == "list" else f"{held}.values()"]


@dataclass(slots=True, kw_only=True)
class StageWriter(ModelWriter):
    """Writes the classes of one stage.

    Parameters
    ----------
    model
        The model in one piece.
    elsewhere
        Parameters to which modules of this stage are tied, and that lie on another one.
    layered
        Whether classes are told which layers they take, so that stages that differ in these alone share them.
    """

    model: Model
    number: int
    elsewhere: frozenset[str]
    problems: Problems
    layered: bool

    def __post_init__(self) -> None:
        ModelWriter.__post_init__(self)
        lines = self.lines
        kinds = {**lines.kinds, **({self._list: "dict"} if self.layered else {})}
        self.lines = StageLines(
            training=lines.training, scope=lines.scope, loops=lines.loops, kinds=kinds, functions=self.functions,
            dtypes={}, modules=self.modules, texts=self.texts,
        )  # fmt: skip

    @property
    def _list(self) -> str:
        """Path of the list of layers, where classes are told which of them they take."""
        return self.training.assignment.assemblies[1].path

    def plain(self, module: str) -> str:
        """Return the text of a class that makes its modules itself."""
        return ModelWriter.write(self, module).text

    def write(self, module: str) -> ClassText:
        """Return the text of the class of a part of a module."""
        whole, _ = self.model.classes[module]
        given = ", layers: range" * self._takes_layers(module)
        lines = [f"    def __init__(self, model: {whole}{given}) -> None:", "        super().__init__()"]
        own = [p.parameter.name.rpartition(".")[2] for p in self._leaves(module).get(module, [])]
        statements = [f"self.{name} = model.{name}" for name in own]
        for token, member in self._member(module).children.items():
            path = f"{module}.{token}" if module else token
            statements.append(assigned(token, self._taken(member, path, _child("model", token))))
        lines += [f"        {line}" for statement in statements for line in wrapped(statement, WIDTH)]
        for body in self.bodies[module]:
            name = f"forward_{body.number}" if body.number > 1 else "forward"
            self.functions[module, body.number] = name
            lines += ["", self._function(body, name, self._identifiers(body))[0]]
        return ClassText(base="nn.Module", doc="", text="\n".join(lines) + "\n", spans=())

    def _takes_layers(self, path: str) -> bool:
        return self.layered and within(self._list, path)

    def _taken(self, member: Member, path: str, source: str) -> str:
        """Return what a stage has of a module of the whole model, which `source` is."""
        if (0, path) in self.class_names and self.class_names[0, path] != self.model.classes[path][0]:
            return f"{self.class_names[0, path]}({source}{', layers' * self._takes_layers(path)})"
        if member.made or member.weights:
            self._hold_whole(path)
            return source
        listed = self.model.kinds.get(path) == "list"
        runs = [(int(t), c.made.count) for t, c in member.children.items() if c.made and c.made.several]
        if listed and len(runs) == len(member.children):
            (first, count), *more = sorted(runs)
            for start, number in more:
                if start != first + count:
                    self.problems.add(path, f"stage {self.number} runs layers of it that do not follow each other")
                count += number
            if first == 0 and not self.layered:
                return f"{source}[:{count}]"
            span = "layers" if self.layered else f"range({first}, {first + count})"
            return f"nn.ModuleDict({{str(index): {source}[index] for index in {span}}})"
        entries = []
        for token, child in member.children.items():
            place = f"{source}[{token}]" if listed else f'{source}["{token}"]'
            entries.append(f'"{token}": {self._taken(child, f"{path}.{token}", place)}')
        return f"nn.ModuleDict({{{', '.join(entries)}}})"

    def _hold_whole(self, path: str) -> None:
        """Hold a module to have all its parameters here."""
        held = {p.parameter.name for p in self.training.scopes[0].assembly.parameters}
        missing = [name for name in self.model.parameters if name.startswith(f"{path}.") and name not in held]
        if missing:
            self.problems.add(path, f"stage {self.number} runs a part of it that has no {missing[0]}")

    def _leaves(self, module: str) -> dict[str, list[ParameterLayout]]:
        found = ModelWriter._leaves(self, module)
        left = {
            leaf: [p for p in parameters if p.parameter.name not in self.elsewhere]
            for leaf, parameters in found.items()
        }
        return {leaf: parameters for leaf, parameters in left.items() if parameters}

    def _identifiers(self, body: Body) -> dict[Key, str]:
        return rebound(body, ModelWriter._identifiers(self, body))


def rebound(body: Body, names: Names) -> dict[Key, str]:
    """Return names under which a value takes that of the one it comes from, where nobody reads that one later.

    What a stage receives goes through its layers under one name: `hidden = layer(hidden)`.
    """
    found = dict(names)
    for place, line in enumerate(body.lines):
        later = set(body.outputs)
        for other in body.lines[place + 1 :]:
            later |= set(other.uses if isinstance(other, Call) else uses([other]))
        # What a loop takes twice, it carries on under one name and reads as it was under the other.
        read = {key for key, n in Counter(line.uses if isinstance(line, Call) else uses([line])).items() if n == 1}
        for key in line.defines:
            stem, _, number = found[key].rpartition("_")
            before = [k for k in read - later if k in found and found[k] == stem]
            if number.isdigit() and before:
                found[key] = stem
    return found


def _child(source: str, token: str) -> str:
    return f"{source}.{token}" if is_name(token) else f'{source}.get_submodule("{token}")'
