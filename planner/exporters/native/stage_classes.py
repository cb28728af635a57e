"""The classes of stages: each takes from the model in one piece what it runs, and has its own forward function.

A module that a stage runs as a whole is the model's own. Only of a module of which it runs a part, a stage has a class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from ...core.assignment import Assembly, ParameterLayout
from ..explicit.classes import Body, Call, uses
from ..explicit.distinct import Classes
from ..explicit.lines import WIDTH, Names
from ..explicit.members import Member, assigned, is_name, reach
from ..explicit.program import Key
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
    arguments, functions
        Stage → path of a module's class → what its forward function takes, and how many of them it has.
    """

    text: str
    tops: tuple[str, ...]
    arguments: tuple[Mapping[str, tuple[str, ...]], ...]
    functions: tuple[Mapping[str, int], ...]


def write_classes(pieces: tuple[Piece, ...], model: Model, texts: Texts, reserved: frozenset[str]) -> StageClasses:
    """Return the classes of all stages.

    Parameters
    ----------
    reserved
        Names that mean something else in the file.
    """
    written = Classes(reserved=reserved | {name for name, _ in model.classes.values()})
    tops: list[str] = []
    arguments: list[dict[str, tuple[str, ...]]] = []
    functions: list[dict[str, int]] = []
    for piece in pieces:
        arguments.append({})
        functions.append({})
        names = written.begin()
        alone = piece.alone.training
        made = partial(
            StageWriter, model=model, number=piece.number, elsewhere=frozenset(piece.elsewhere.values()),
            problems=texts.problems,
        )  # fmt: skip
        for writer in writers(alone, names, piece.modules, texts, made):
            for module, bodies in writer.bodies.items():
                arguments[-1][module] = tuple(name for name, _ in bodies[0].inputs)
                functions[-1][module] = len(bodies)
                known, code = model.classes[texts.named(module)]
                if module and (writer.scope or writer.plain(module) == code):
                    names[writer.scope, module] = known
                    continue
                written.add(0, module, f"{known}Stage{piece.number}", writer.write(module))
        tops.append(names[0, ""])
    return StageClasses(
        text="\n\n".join(text for text, _ in written.texts()), tops=tuple(tops), arguments=tuple(arguments),
        functions=tuple(functions),
    )  # fmt: skip


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
    """

    model: Model
    number: int
    elsewhere: frozenset[str]
    problems: Problems
    parts: dict[str, str] = field(default_factory=dict)
    """Path of a module of which the stage runs a part → its class in the whole model."""

    def __post_init__(self) -> None:
        ModelWriter.__post_init__(self)
        lines = self.lines
        assert isinstance(lines, ModelLines)
        self.lines = StageLines(
            training=lines.training, scope=lines.scope, loops=lines.loops, kinds=lines.kinds, functions=self.functions,
            dtypes={}, modules=self.modules, texts=self.texts,
        )  # fmt: skip

    def plain(self, module: str) -> str:
        """Return the text of a class that makes its modules itself."""
        return ModelWriter.write(self, module).text

    def write(self, module: str) -> ClassText:
        """Return the text of the class of a part of a module."""
        whole, _ = self.model.classes[module]
        lines = [f"    def __init__(self, model: {whole}) -> None:", "        super().__init__()"]
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
        graph = self.training.assignment.graph
        doc = f"{graph.name}: what stage {self.number} runs of {module or 'the model'}"
        return ClassText(base="nn.Module", doc=doc, text="\n".join(lines) + "\n", spans=())

    def _taken(self, member: Member, path: str, source: str) -> str:
        """Return what a stage has of a module of the whole model, which `source` is."""
        if (0, path) in self.class_names and self.class_names[0, path] != self.model.classes[path][0]:
            return f"{self.class_names[0, path]}({source})"
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
            if first == 0:
                return f"{source}[:{count}]"
            span = f"range({first}, {first + count})"
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
