"""Write class bodies as Python text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap

from ...core.assignment import Assembly, AssignedNode, Fanout, ParameterLayout, TrainingGraph
from ...core.collective import Redistribution
from ...core.tensor import nbytes
from ...core.units import format_bytes
from ...errors import ExportError
from ...ops import OPS
from .classes import Body, Call, uses
from .local import local_of
from .names import identifiers
from .program import Argument, Key, ParameterUse, Statement, groups, parent, within
from .steps import calls
from .wrap import assignment, wrapped

_WIDTH = 112
"""Longest line of a statement before its indentation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Writes the classes of one scope.

    Parameters
    ----------
    class_names
        Module path → class name, with the suffix of the scope's run.
    dtypes
        What `compute` and `gradient` stand for, to print bytes.
    """

    training: TrainingGraph
    scope: int
    class_names: Mapping[str, str]
    runs: Mapping[str, tuple[tuple[Assembly, str], ...]]
    dtypes: Mapping[str, str]

    def write(self, body: Body) -> str:
        """Return the text of one class."""
        module = f"{self.training.assignment.graph.name}: {body.module or 'the whole model'}"
        lines = [f"class {self.class_names[body.module]}(nn.Module):", f'    """{module}."""', ""]
        layered = self._layered(body)
        lines.append(f"    def __init__(self, mesh: Mesh{', layer: int' * layered}) -> None:")
        lines += ["        super().__init__()", "        self.mesh = mesh", *["        self.layer = layer"] * layered]
        lines += [
            *(f"        {line}" for long in self._members(body) for line in wrapped(long, _WIDTH)),
            "",
        ]
        names = self._identifiers(body)
        arguments = ", ".join(f"{names[key]}: torch.Tensor" for key in body.inputs)
        count = len(body.outputs)
        answer = "torch.Tensor" if count == 1 else f"tuple[{', '.join(['torch.Tensor'] * count)}]"
        head = f"    def forward(self, {arguments}) -> {answer}:"
        if len(head) > _WIDTH + 8:
            listed = [f"        {names[key]}: torch.Tensor," for key in body.inputs]
            head = "\n".join(["    def forward(", "        self,", *listed, f"    ) -> {answer}:"])
        lines.append(head)
        text = [line for item in body.lines for line in self._line(item, names, body.module)]
        if any(re.search(r"\bmesh\b", line.split("#")[0]) for line in text):
            lines.append("        mesh = self.mesh")
        lines += [f"        {line}" for line in text]
        answer = ", ".join(names[key] for key in body.outputs)
        lines += [f"        {line}" for line in _returned(answer)]
        return "\n".join(lines) + "\n"

    def _members(self, body: Body) -> Iterator[str]:
        """Yield the assignments of `__init__`: child modules and the weights of leaf modules."""
        for line in body.lines:
            if isinstance(line, Call):
                arguments = "mesh, layer" if self._layered(line.body) else "mesh"
                yield f"self.{line.body.module.rpartition('.')[2]} = {self.class_names[line.body.module]}({arguments})"
            elif isinstance(line.what, Assembly) and line.what.position == 0:
                parts = [f"*({_made(run, name)})" for run, name in self.runs[line.what.name]]
                listed = parts[0][2:-1] if len(parts) == 1 else ", ".join(parts)
                yield f"self.{line.what.name.rpartition('.')[2]} = nn.ModuleList([{listed}])"
        leaves: dict[str, list[ParameterLayout]] = {}
        for p in self.training.scopes[self.scope].assembly.parameters:
            leaf, _, _ = p.parameter.name.rpartition(".")
            if parent(leaf) == body.module:
                leaves.setdefault(leaf, []).append(p)
        for leaf, parameters in leaves.items():
            updates = [entry for p in parameters if (entry := self._update(p.parameter.name))]
            given = [f"{{{', '.join(updates)}}}"] * bool(updates) + [*map(_spec, parameters)]
            yield f"self.{leaf.rpartition('.')[2]} = Weights(mesh, {', '.join(given)})"

    def _update(self, name: str) -> str:
        """Return the entry of a parameter whose gradient or optimizer state does not lie like the parameter."""
        scope = self.training.scopes[self.scope]
        update = next((u for u in scope.updates if u.parameter == name), None)
        if update is None:
            return ""
        apart = [f for f in scope.fanouts if f.value == name and f.apart]
        if not apart and not update.apart:
            return ""
        arguments = [f'gradient="{f.gradient}"' + ", deferred=True" * f.deferred for f in apart]
        arguments += ["apart=True"] * update.apart
        for role, moved in (("master", update.master), ("reduce", update.gradient), ("publish", update.values)):
            if moved.steps:
                arguments.append(f"{role}=[{self._steps(moved)}]")
        return f'"{name.rpartition(".")[2]}": Update({", ".join(arguments)})'

    def _layered(self, body: Body) -> bool:
        """Return whether a line of a layer's class, or of its children, names the layer."""
        return self.scope > 0 and any(
            self._layered(line.body) if isinstance(line, Call)
            else isinstance(line.what, AssignedNode) and OPS[line.what.node.op].layered
            for line in body.lines
        )  # fmt: skip

    def _identifiers(self, body: Body) -> dict[Key, str]:
        keys: list[Key] = [*body.inputs]
        readers: dict[Key, str] = {}
        for line in body.lines:
            keys += [*line.uses] if isinstance(line, Call) else [*uses([line])]
            keys += line.defines
        # Another run's values have the same names, and may have other forms.
        for scope in (self.training.scopes[index] for index in sorted({0, self.scope})):
            for fanout in scope.fanouts:
                formed = groups(fanout)
                if len(formed) > 1:
                    for index, group in enumerate(formed):
                        reader = fanout.readers[group.readers[0]].node
                        readers[fanout.value, index] = re.split(r"[./~]", reader)[-1]
        return identifiers([*keys, *body.outputs], readers, self._preferred())

    def _preferred(self) -> dict[str, str]:
        """Return names for results that are not named like their node: an operator's named ones, and a run's."""
        names: dict[str, str] = {}
        for scope in self.training.scopes:
            for assigned in scope.assembly.nodes:
                results = OPS[assigned.node.op].results
                names.update({v.name: n for v, n in zip(assigned.node.results, results, strict=False)})
            for result, (inner, _) in zip(scope.assembly.results, scope.assembly.carried, strict=False):
                names[result] = inner
        return names

    def _line(self, item: Statement | Call, names: Mapping[Key, str], module: str) -> Iterator[str]:
        if isinstance(item, Call):
            child = item.body.module.rpartition(".")[2]
            taken = ", ".join(names[key] for key in item.uses)
            yield from assignment([names[key] for key in item.defines], f"self.{child}({taken})", _WIDTH)
            return
        arguments = [self._argument(a, names, module) for a in item.arguments]
        targets = [names[key] for key in item.defines]
        if isinstance(item.what, AssignedNode):
            node, assigned = item.what.node, self.training.assignment
            local = local_of(
                node, item.what.strategy, tuple(arguments), assigned.symbols, assigned.mesh,
                layer="self.layer" if self.scope else "0",
            )  # fmt: skip
            text = OPS[node.op].torch(local)
            layouts = ", ".join(map(str, item.what.results))
            code = assignment(targets, text, _WIDTH)
            short = len(code) == 1 and len(code[0] + layouts) < _WIDTH - 4
            yield from [f"{code[0]}  # {layouts}"] if short else [f"# {layouts}", *code]
        elif isinstance(item.what, Assembly):
            yield from _loop(item.what, targets, arguments, len(self.runs[item.what.name]) > 1)
        else:
            yield from self._reshard(item.what, targets, arguments[0])

    def _argument(self, argument: Argument, names: Mapping[Key, str], module: str) -> str:
        if not isinstance(argument, ParameterUse):
            return names[argument]
        if not within(argument.name, module):
            raise ExportError(
                "export.parameter-elsewhere", f"{module} reads {argument.name}, which lies in another module.",
                "Give the parameter one layout for all its readers.", subject=argument.name,
            )  # fmt: skip
        return f"self.{argument.name[len(module) + 1 :] if module else argument.name}"

    def _steps(self, moved: Redistribution) -> str:
        return calls(moved, self.training.assignment.mesh)

    def _reshard(self, fanout: Fanout, targets: list[str], source: str) -> Iterator[str]:
        """Yield the call that brings a value to its readers, under a comment that names the plan's edge."""
        formed = groups(fanout)
        steps = {position: delivery.redistribution for delivery in fanout.forward for position in delivery.readers}
        regather = fanout.regather and any(r.steps for r in steps.values())
        for line in self._comment(fanout):
            yield from wrap(line, _WIDTH, subsequent_indent="#     ", break_long_words=False, break_on_hyphens=False)
        arguments = [source, "mesh"]
        if len(formed) == 1:
            call, forward = "reshard", steps[formed[0].readers[0]]
            if forward.steps:
                arguments.append(f"forward=[{self._steps(forward)}]")
            if fanout.backward and fanout.backward[0].redistribution.steps:
                arguments.append(f"backward=[{self._steps(fanout.backward[0].redistribution)}]")
        else:
            call = "fan_out"
            arguments.append(f"forward=[{', '.join(f'[{self._steps(steps[g.readers[0]])}]' for g in formed)}]")
            back = []
            for delivery in fanout.backward:
                members = tuple(i for i, g in enumerate(formed) if not set(g.readers).isdisjoint(delivery.readers))
                back.append(f"([{self._steps(delivery.redistribution)}], {members})")
            arguments.append(f"backward=[{', '.join(back)}]")
        if regather:
            arguments.append("regather=True")
        if fanout.apart:
            leaf, _, name = source.rpartition(".")
            arguments.append(f'gradient={leaf}.gradients["{name}"]')
        yield from assignment(targets, f"{call}({', '.join(arguments)})", _WIDTH)

    def _comment(self, fanout: Fanout) -> Iterator[str]:
        yield f"# {fanout.value}, {fanout.source}:"
        for delivery in fanout.forward:
            readers = ", ".join(dict.fromkeys(_short(fanout.readers[p].node) for p in delivery.readers))
            yield f"#   {self._arrow(delivery.redistribution, fanout.meta.dtype)} for {readers}"
        dtype = "gradient" if fanout.kind == "parameter" else fanout.meta.dtype
        for delivery in fanout.backward:
            yield f"#   gradient {self._arrow(delivery.redistribution, dtype)}"

    def _arrow(self, moved: Redistribution, dtype: str) -> str:
        if not moved.steps:
            return f"{moved.target} as it is" if moved.source == moved.target else f"{moved.source} is {moved.target}"
        passed = [
            format_bytes(nbytes((max(s.source_elements, s.target_elements),), self.dtypes.get(dtype, dtype)))
            for s in moved.steps
        ]
        return f"{moved.source} → {moved.target}, {' + '.join(passed)}"


def _made(run: Assembly, name: str) -> str:
    """Return the generator of a run's layers."""
    if any(OPS[assigned.node.op].layered for assigned in run.nodes):
        return f"{name}(mesh, layer) for layer in range({run.start}, {run.stop})"
    return f"{name}(mesh) for _ in range({run.count})"


def _spec(p: ParameterLayout) -> str:
    name = p.parameter.name.rpartition(".")[2]
    return f'{name}=({p.parameter.meta.shape}, "{p.storage}", "{p.parameter.initial}")'


def _loop(run: Assembly, targets: list[str], arguments: list[str], several: bool) -> Iterator[str]:
    carried = arguments[: len(targets)]
    for target, argument in zip(targets, carried, strict=True):
        if target != argument:
            yield f"{target} = {argument}"
    layers = f"self.{run.name.rpartition('.')[2]}" + (f"[{run.start}:{run.stop}]" if several else "")
    yield f"for layer in {layers}:"
    inner = assignment(targets, f"layer({', '.join([*targets, *arguments[len(targets) :]])})", _WIDTH - 4)
    yield from (f"    {line}" for line in inner)


def _returned(answer: str) -> list[str]:
    short = len(answer) < _WIDTH - len("return ")
    return [f"return {answer}"] if short else wrapped(f"return ({answer})", _WIDTH)


def _short(node: str) -> str:
    return re.split(r"[./]", node)[-1] if "-" not in node else node
