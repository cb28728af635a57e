"""Write classes as Python text: what they hold, and their forward functions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ...core.assignment import Assembly, AssignedNode, Fanout, ParameterLayout, TrainingGraph
from ...ops import OPS
from .classes import Body, Call, uses
from .lines import WIDTH, Lines, Names
from .marks import Span, joined, line_count, shifted, update_spans
from .members import Made, Member, assigned, is_name
from .names import identifiers
from .program import Key, Statement, groups, parent
from .steps import calls
from .wrap import wrapped


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassText:
    """A class without its name.

    Parameters
    ----------
    base
        Class that it is derived from.
    doc
        What its docstring says.
    text
        Its lines after the docstring.
    spans
        What its lines stand for.
    """

    base: str
    doc: str
    text: str
    spans: tuple[Span, ...]


@dataclass(slots=True, kw_only=True)
class Writer:
    """Writes the classes of one scope, those of children before those that hold them.

    Parameters
    ----------
    tops
        Index of a scope → body of its top.
    class_names
        Scope and module path → class name, of the classes that were written before.
    dtypes
        What `compute` and `gradient` stand for, to print bytes.
    marked
        Name in the root → name in the plan's view, where they differ.
    title
        What the root's class is, for its docstring.
    """

    training: TrainingGraph
    scope: int
    tops: Mapping[int, Body]
    class_names: dict[tuple[int, str], str]
    dtypes: Mapping[str, str]
    marked: Mapping[str, str]
    title: str
    bodies: dict[str, list[Body]] = field(init=False)
    members: dict[str, Member] = field(init=False)
    lines: Lines = field(init=False)
    functions: dict[tuple[str, int], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assembly = self.training.scopes[self.scope].assembly
        self.bodies = {}
        for body in self.tops[self.scope].bodies():
            # A module that runs twice is written after all that it holds.
            self.bodies[body.module] = [*self.bodies.pop(body.module, ()), body]
        if assembly.period > 1:
            # The iteration itself is no module: the loop is written where the list is.
            del self.bodies[assembly.path]
        self.members = {module: self._member(module) for module in self.bodies}
        kinds = {path: kind for module, member in self.members.items() for path, kind in member.kinds(module)}
        assemblies = self.training.assignment.assemblies
        loops = {assemblies[index].title: body for index, body in self.tops.items() if index}
        self.lines = Lines(
            training=self.training, scope=self.scope, loops=loops, kinds=kinds, functions=self.functions,
            dtypes=self.dtypes, ahead=_ahead(self.training),
        )  # fmt: skip

    def write(self, module: str) -> ClassText:
        """Return the text of one class."""
        layered, own = self._layered(module), self._own(module)
        lines = [f"    def __init__(self, mesh: Mesh{', layer: int' * layered}) -> None:"]
        start = [f"super().__init__(mesh, {own})"] if own else ["super().__init__()", "self.mesh = mesh"]
        start += ["self.layer_index = layer"] * layered
        owned = self._updated(self._leaves(module).get(module, []))
        statements: list[tuple[str, Iterable[str]]] = [(start[0], owned), *((text, ()) for text in start[1:])]
        statements += [(assigned(t, m.expression()), m.updated()) for t, m in self._member(module).children.items()]
        spans: list[Span] = []
        for statement, updates in statements:
            long = wrapped(statement, WIDTH)
            spans += shifted(update_spans(long, [self._id(name) for name in updates]), len(lines))
            lines += [f"        {line}" for line in long]
        written: dict[tuple[str, str], tuple[str, tuple[Span, ...]]] = {}
        for body in self.bodies[module]:
            kind = "recomputed" if body.segment else "forward"
            plain, ids = self._function(body, "", dict(self._numbered(body)))
            if (kind, plain) in written:
                name, known = written[kind, plain]
                written[kind, plain] = name, joined(known, ids)
            else:
                number = sum(other == kind for other, _ in written) + 1
                name = f"{kind}_{number}" if number > 1 else kind
                text, found = self._function(body, name, self._identifiers(body))
                written[kind, plain] = name, shifted(found, line_count(lines) + 1)
                lines += ["", text]
            self.functions[module, body.number] = name
        spans += (span for _, found in written.values() for span in found)
        doc = f"{self.training.assignment.graph.name}: {module or self.title}"
        base = "Weights" if own else "nn.Module"
        return ClassText(base=base, doc=doc, text="\n".join(lines) + "\n", spans=tuple(spans))

    def _function(self, body: Body, name: str, names: Names) -> tuple[str, tuple[Span, ...]]:
        """Return the text of a function, without comments if it has no name, and what its lines stand for."""
        arguments = ", ".join(f"{names[key]}: torch.Tensor" for key in body.inputs)
        count = len(body.outputs)
        answer = {0: "None", 1: "torch.Tensor"}.get(count, f"tuple[{', '.join(['torch.Tensor'] * count)}]")
        head = f"    def {name}(self{', ' * bool(arguments)}{arguments}) -> {answer}:"
        if len(head) > WIDTH + 8:
            listed = [f"        {names[key]}: torch.Tensor," for key in body.inputs]
            head = "\n".join([f"    def {name}(", "        self,", *listed, f"    ) -> {answer}:"])
        text: list[str] = []
        spans: list[Span] = []
        for item, written in self.lines.of(body, names):
            spans += shifted(self._spans(item, len(written)), len(text))
            text += written
        if not name:
            # To compare functions, what comments say of values does not matter.
            text = [line.split("#")[0].rstrip() for line in text]
        lines = [head]
        if any(re.search(r"\bmesh\b", line.split("#")[0]) for line in text):
            lines.append("        mesh = self.mesh")
        found = shifted(spans, line_count(lines))
        lines += [f"        {line}" for line in text]
        lines += [f"        {line}" for line in _returned(", ".join(names[key] for key in body.outputs))]
        return "\n".join(lines), found

    def _spans(self, item: Statement | Call, count: int) -> Iterator[Span]:
        """Yield what a statement's lines stand for; calls and loops stand for nothing that they do themselves."""
        if isinstance(item, Call):
            return
        if isinstance(item.what, AssignedNode):
            yield Span(first=0, last=count - 1, nodes=(self._id(item.what.node.name),))
        elif isinstance(item.what, Fanout):
            yield Span(first=0, last=count - 1, edges=(self._id(item.what.value),))

    def _id(self, name: str) -> str:
        """Return the id that the plan's view gives a node, or the edge of a value, of this scope."""
        return f"{self.training.scopes[self.scope].assembly.title}:{self.marked.get(name, name)}"

    def _keys(self, body: Body) -> dict[Key, None]:
        """Return the variables of a function, in the order in which they appear."""
        return {key: None for key in self._all_keys(body) if not self.lines.holds(key, body.module)}

    def _all_keys(self, body: Body) -> Iterator[Key]:
        yield from body.inputs
        for line in body.lines:
            if not isinstance(line, Call) and isinstance(line.what, Assembly) and line.what.period > 1:
                loop = self.lines.loops[line.what.title]
                yield from (key for call in loop.lines for key in call.defines)
            yield from line.uses if isinstance(line, Call) else uses([line])
            yield from line.defines
        yield from body.outputs

    def _numbered(self, body: Body) -> Iterator[tuple[Key, str]]:
        yield from ((key, f"v{number}") for number, key in enumerate(self._keys(body)))

    def _identifiers(self, body: Body) -> dict[Key, str]:
        readers: dict[Key, str] = {}
        # Another run's values have the same names, and may have other forms.
        iterations = {i for i, each in enumerate(self.training.scopes) if each.assembly.period > 1 and not self.scope}
        for scope in (self.training.scopes[index] for index in sorted({0, self.scope} | iterations)):
            for fanout in scope.fanouts:
                formed = groups(fanout)
                if len(formed) > 1:
                    for index, group in enumerate(formed):
                        reader = fanout.readers[group.readers[0]].node
                        readers[fanout.value, index] = re.split(r"[./~]", reader)[-1]
        return identifiers(self._keys(body), readers, self._preferred())

    def _preferred(self) -> dict[str, str]:
        """Return names for results that are not named like their node: an operator's named ones, and a run's."""
        names: dict[str, str] = {}
        for scope in self.training.scopes:
            for node in scope.assembly.nodes:
                results = OPS[node.node.op].results
                names.update({v.name: n for v, n in zip(node.node.results, results, strict=False)})
            for result, (inner, _) in zip(scope.assembly.results, scope.assembly.carried, strict=False):
                names[result] = inner
        # What comes from another stage, and goes through the layers here.
        given = {name for name, _, _ in self.training.scopes[0].assembly.inputs}
        for scope in self.training.scopes[1:]:
            names.update({o: i for i, o in scope.assembly.operands[: len(scope.assembly.carried)] if o in given})
        return names

    def _member(self, module: str) -> Member:
        """Return a class's modules: those with code and runs of layers, then those with parameters alone."""
        found = Member()
        for body in self.bodies[module]:
            for line in body.lines:
                if isinstance(line, Call) and line.body.module != module:
                    made = self._class(self.scope, line.body.module, self._layered(line.body.module))
                    found.at(_below(line.body.module, module)).made = Made(made)
                elif not isinstance(line, Call) and isinstance(line.what, Assembly):
                    run = line.what
                    place = _below(f"{run.path}.{run.layers.first}", module)
                    found.at(place).made = self._run(run)
        for leaf, parameters in self._leaves(module).items():
            if leaf != module:
                member = found.at(_below(leaf, module))
                member.weights, member.updates = self._weights(parameters), self._updated(parameters)
        return found

    def _own(self, module: str) -> str:
        """Return the arguments of a class that is `Weights` itself; empty for one without parameters of its own."""
        own = self._leaves(module).get(module)
        return self._weights(own) if own else ""

    def _leaves(self, module: str) -> dict[str, list[ParameterLayout]]:
        """Return module → parameters that lie in it directly, of those that a class holds."""
        leaves: dict[str, list[ParameterLayout]] = {}
        for p in self.training.scopes[self.scope].assembly.parameters:
            leaf = parent(p.parameter.name)
            if _nearest(leaf, self.bodies) == module:
                leaves.setdefault(leaf, []).append(p)
        return leaves

    def _class(self, scope: int, module: str, layered: bool, layer: str = "layer") -> str:
        name = self.class_names.get((scope, module), "?")
        return f"{name}(mesh{f', {layer}' * layered})"

    def _run(self, run: Assembly) -> Made:
        """Return what makes a run's layers."""
        scope = self.training.assignment.assemblies.index(run)
        layered = any(OPS[assigned.node.op].layered for assigned in run.nodes)
        layers, top = run.layers, run.templates[0]
        if run.period == 1:
            made = self._class(scope, top, layered)
            each = f"for layer in range({layers.first}, {layers.last + 1})"
            text = f"{made} {each}" if layered else f"{made} for _ in range({layers.count})"
            return Made(text, layers.count, several=True, numbered=f"str(layer): {made} {each}")
        makers = [
            self._class(scope, path, layered, f"layer + {place}" if place else "layer")
            for place, path in enumerate(run.templates)
        ]
        start = f"range({layers.first}, {layers.last + 1}, {run.period})" if layered else f"range({run.count})"
        each = f"made for {'layer' if layered else '_'} in {start} for made in ({', '.join(makers)})"
        return Made(each, layers.count, several=True)

    def _weights(self, parameters: list[ParameterLayout]) -> str:
        updates = [entry for p in parameters if (entry := self._update(p.parameter.name))]
        given = [f"{{{', '.join(updates)}}}"] * bool(updates) + [*map(_spec, parameters)]
        return ", ".join(given)

    def _updated(self, parameters: list[ParameterLayout]) -> tuple[str, ...]:
        """Return the parameters among these that have an update to write."""
        return tuple(p.parameter.name for p in parameters if self._update(p.parameter.name))

    def _update(self, name: str) -> str:
        """Return the entry of a parameter whose gradient or optimizer state does not lie like the parameter."""
        scope = self.training.scopes[self.scope]
        placed = scope.assembly.parameter(name)
        assert placed is not None
        update = next((u for u in scope.updates if u.parameter == name), None)
        if update is None:
            # One that is not trained.
            return f'"{name.rpartition(".")[2]}": Update(place="host")' if placed.place == "host" else ""
        apart = [f for f in scope.fanouts if f.value == name and f.apart]
        on_host = {
            key: p for key, p in (("place", placed.place), ("state_place", placed.optimizer_place)) if p == "host"
        }
        if not apart and not update.apart and not on_host:
            return ""
        arguments = [f'gradient="{f.gradient}"' + ", deferred=True" * f.deferred for f in apart]
        arguments += [f'state="{update.values.source}"'] * (update.apart or len(on_host) == 1)
        arguments += [f'{key}="{place}"' for key, place in on_host.items()]
        for role, moved in (("master", update.master), ("reduce", update.gradient), ("publish", update.values)):
            if moved.steps:
                arguments.append(f"{role}=[{calls(moved, self.training.assignment.mesh)}]")
        return f'"{name.rpartition(".")[2]}": Update({", ".join(arguments)})'

    def _layered(self, module: str) -> bool:
        """Return whether a line of a layer's class, or of its children, names the layer."""
        return self.scope > 0 and any(
            line.body.module != module and self._layered(line.body.module) if isinstance(line, Call)
            else isinstance(line.what, AssignedNode) and OPS[line.what.node.op].layered
            for body in self.bodies[module]
            for line in body.lines
        )  # fmt: skip


def _ahead(training: TrainingGraph) -> int:
    """Return the most parameters on the host that a layer fetches; outside of layers, one at least."""
    return max((sum(f.host for f in scope.fanouts) for scope in training.scopes[1:]), default=1)


def _below(path: str, module: str) -> str:
    return path[len(module) + 1 :] if module else path


def _nearest(leaf: str, classes: Iterable[str]) -> str:
    """Return the class at or around a module."""
    while leaf not in classes:
        leaf = parent(leaf)
    return leaf


def _spec(p: ParameterLayout) -> str:
    name = p.parameter.name.rpartition(".")[2]
    value = f'({p.parameter.meta.shape}, "{p.storage}", "{p.parameter.initial}")'
    return f"{name}={value}" if is_name(name) else f'**{{"{name}": {value}}}'


def _returned(answer: str) -> list[str]:
    if not answer:
        return ["return"]
    short = len(answer) < WIDTH - len("return ")
    return [f"return {answer}"] if short else wrapped(f"return ({answer})", WIDTH)
