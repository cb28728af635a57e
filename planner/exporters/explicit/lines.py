"""Write the lines of a forward function: operators, resharding calls, calls of child modules, loops over layers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap

from ...core.assignment import Assembly, AssignedNode, Fanout, TrainingGraph
from ...core.collective import Redistribution
from ...core.tensor import nbytes
from ...core.units import format_bytes
from ...ops import OPS
from .classes import Body, Call
from .local import local_of
from .members import reach
from .program import Argument, Key, ParameterUse, Statement, groups, parent, within
from .steps import calls
from .wrap import assignment

WIDTH = 112
"""Longest line of a statement before its indentation."""

Names = Mapping[Key, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Writes lines of one scope.

    Parameters
    ----------
    loops
        Title of a run whose layers alternate → the body of one iteration.
    kinds
        Path of a module that only holds others → how its children are reached.
    functions
        Module and number of a body → the name of its function.
    dtypes
        What `compute` and `gradient` stand for, to print bytes.
    ahead
        How many parameters on the host are brought to the device before they are used: those of a layer.
    """

    training: TrainingGraph
    scope: int
    loops: Mapping[str, Body]
    kinds: Mapping[str, str]
    functions: Mapping[tuple[str, int], str]
    dtypes: Mapping[str, str]
    ahead: int = 0

    def of(self, body: Body, names: Names) -> Iterator[tuple[Statement | Call, list[str]]]:
        """Yield each statement of a body with its lines, under names for its variables."""
        yield from ((item, list(self._line(item, names, body.module))) for item in body.lines)

    def _line(self, item: Statement | Call, names: Names, module: str) -> Iterator[str]:
        if isinstance(item, Call):
            child = "self" if item.body.module == module else reach(item.body.module, module, self.kinds)
            yield from self._call(child, item, names, module, WIDTH)
            return
        arguments = [self._argument(a, names, module) for a in item.arguments]
        targets = [names[key] for key in item.defines]
        if isinstance(item.what, AssignedNode):
            node, assigned = item.what.node, self.training.assignment
            local = local_of(
                node, item.what.strategy, tuple(arguments), assigned.symbols, assigned.mesh,
                layer="self.layer_index" if self.scope else "0",
            )  # fmt: skip
            text = OPS[node.op].torch(local)
            layouts = ", ".join(map(str, item.what.results))
            code = assignment(targets, text, WIDTH)
            short = len(code) == 1 and len(code[0] + layouts) < WIDTH - 4
            yield from [f"{code[0]}  # {layouts}"] if short else [f"# {layouts}", *code]
        elif isinstance(item.what, Assembly):
            yield from self._loop(item.what, targets, arguments, names, module)
        else:
            yield from self._reshard(item.what, item.arguments[0], targets, arguments[0], module)

    def _call(self, child: str, item: Call, names: Names, module: str, width: int) -> Iterator[str]:
        function = self.functions.get((item.body.module, item.body.number), "forward")
        taken = ", ".join(self._argument(key, names, module) for key in item.uses)
        called = child if function == "forward" else f"{child}.{function}"
        text = f"recompute({called}, mesh, {taken})" if item.again else f"{called}({taken})"
        yield from assignment([names[key] for key in item.defines], text, width)

    def _argument(self, argument: Argument, names: Names, module: str) -> str:
        """Return a variable, or where a parameter lies that this class holds."""
        key = (argument.name, -1) if isinstance(argument, ParameterUse) else argument
        return reach(key[0], module, self.kinds, parameter=True) if self.holds(key, module) else names[key]

    def holds(self, key: Key, module: str) -> bool:
        """Return whether a variable is a parameter as it is stored, in a module at or below this one."""
        value, index = key
        assembly = self.training.scopes[self.scope].assembly
        return index == -1 and within(value, module) and assembly.parameter(value) is not None

    def _loop(
        self, run: Assembly, targets: list[str], arguments: list[str], names: Names, module: str
    ) -> Iterator[str]:
        """Yield the loop over a run's layers, which hands on what is carried."""
        for target, argument in zip(targets, arguments, strict=False):
            if target != argument:
                yield f"{target} = {argument}"
        given = [*targets, *arguments[len(targets) :]]
        if run.period == 1:
            yield f"for layer in {self._layers(run, module)[0]}:"
            start = "recompute(layer, mesh, " if self.loops[run.title].again else "layer("
            inner = assignment(targets, f"{start}{', '.join(given)})", WIDTH - 4)
        else:
            body = self.loops[run.title]
            layers = [f"layer_{place}" for place in range(run.period)]
            yield f"for {', '.join(layers)} in zip({', '.join(self._layers(run, module))}, strict=True):"
            own = dict(names) | dict(zip(body.inputs, given, strict=True))
            if len(targets) == 1:
                own[body.outputs[0]] = targets[0]
            inner = []
            for call in body.lines:
                assert isinstance(call, Call)
                child = layers[run.templates.index(call.body.module)]
                inner += self._call(child, call, own, body.module, WIDTH - 4)
            made = [own[key] for key in body.outputs]
            if made != targets:
                inner += assignment(targets, ", ".join(made), WIDTH - 4)
        yield from (f"    {line}" for line in inner)

    def _layers(self, run: Assembly, module: str) -> list[str]:
        """Return the layers that a run runs through, one expression for each layer of an iteration."""
        others = sum(a.path == run.path for a in self.training.assignment.assemblies) > 1
        layers = run.layers
        held = reach(run.path, module, self.kinds)
        if self.kinds.get(run.path) != "list":
            if run.period == 1 and not others and self._is_whole(run):
                return [f"{held}.values()"]
            each = (layers.part(place, layers.count) for place in range(run.period))
            step = f", {run.period}" if run.period > 1 else ""
            spans = (f"range({part.first}, {layers.last + 1}{step})" for part in each)
            return [f"({held}[str(index)] for index in {span})" for span in spans]
        if run.period > 1:
            ends = [layers.first + place for place in range(run.period)]
            return [f"{held}[{end}:{layers.last + 1}:{run.period}]" for end in ends]
        alone = not others and layers.first == 0 and self._is_whole(run)
        return [held if alone else f"{held}[{layers.first}:{layers.last + 1}]"]

    def _is_whole(self, run: Assembly) -> bool:
        """Return whether a run that is its list's only one is all of the list."""
        modules = self.training.assignment.graph.modules
        return sum(parent(m.path) == run.path for m in modules) == 1

    def _steps(self, moved: Redistribution) -> str:
        return calls(moved, self.training.assignment.mesh)

    def _reshard(self, fanout: Fanout, read: Argument, targets: list[str], source: str, module: str) -> Iterator[str]:
        """Yield the call that brings a value to its readers, under a comment that names the plan's edge."""
        formed = groups(fanout)
        steps = {position: delivery.redistribution for delivery in fanout.forward for position in delivery.readers}
        regather = fanout.regather and (fanout.host or any(r.steps for r in steps.values()))
        for line in self._comment(fanout):
            yield from wrap(line, WIDTH, subsequent_indent="#     ", break_long_words=False, break_on_hyphens=False)
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
        if fanout.host:
            arguments.append(f"ahead={self.ahead}")
        if fanout.apart and isinstance(read, ParameterUse):
            leaf, _, name = read.name.rpartition(".")
            held = reach(leaf, module, self.kinds) if leaf != module else "self"
            arguments.append(f'gradient={held}.gradients["{name}"]')
        yield from assignment(targets, f"{call}({', '.join(arguments)})", WIDTH)

    def _comment(self, fanout: Fanout) -> Iterator[str]:
        yield f"# {fanout.value}, {fanout.source}{' on the host' if fanout.host else ''}:"
        runs = {assembly.title for assembly in self.training.assignment.assemblies}
        for delivery in fanout.forward:
            nodes = (fanout.readers[position].node for position in delivery.readers)
            readers = ", ".join(dict.fromkeys(n if n in runs else re.split(r"[./]", n)[-1] for n in nodes))
            yield f"#   {self._arrow(delivery.redistribution, fanout.meta.dtype)} for {readers}"
        dtype = "gradient" if fanout.kind == "parameter" else fanout.meta.dtype
        for delivery in fanout.backward:
            yield f"#   gradient {self._arrow(delivery.redistribution, dtype)}"

    def _arrow(self, moved: Redistribution, dtype: str) -> str:
        if not moved.steps:
            return f"{moved.target} as it is" if moved.source == moved.target else f"{moved.source} is {moved.target}"
        passed = [
            format_bytes(
                nbytes((max(s.source_elements, s.target_elements),), s.added_in or self.dtypes.get(dtype, dtype))
            )
            for s in moved.steps
        ]
        return f"{moved.source} → {moved.target}, {' + '.join(passed)}"
