"""Which `ParallelStyle` each module has, from the layouts of a plan over its axis of tensor parallelism.

Between modules, values are plain local tensors: what moves has to move where a style of a module does it.

| the plan moves | by |
|---|---|
| what column-parallel modules read, to whole; its gradient back | `PrepareModuleInput`, or one's `input_layouts` |
| a partial sum of a row-parallel module to whole or sharded | its `output_layouts` |
| a column-parallel result to whole | its `output_layouts` |
| a whole result to its shard | `PrepareModuleOutput` |
| a whole value that a row-parallel module reads, to its shard | its `input_layouts` |
| a norm's weight gradient over the shards of what it norms | `SequenceParallel` |

Everything else is a reason against this form.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...core.assignment import Assembly, AssignedNode, Fanout, Scope, TrainingGraph
from ...core.graph import Node
from ...core.layout import Layout
from ...core.mesh import Axes
from ..explicit.program import common, containers, owner
from .modules import TorchModule
from .problems import Problems

NORMS = ("rms_norm", "layer_norm")


@dataclass(slots=True)
class Style:
    """A style of one module, with the arguments that differ from the style's own."""

    name: str
    arguments: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value}' for name, value in self.arguments.items())})"


@dataclass(slots=True, kw_only=True)
class Styles:
    """The styles of the modules of a model.

    Parameters
    ----------
    scopes
        Index of a scope → path of a module → its style.
    loss_parallel
        Whether the loss is taken of logits that are sharded over the vocabulary.
    """

    scopes: dict[int, dict[str, Style]] = field(default_factory=dict)
    loss_parallel: bool = False


def find_styles(
    training: TrainingGraph, modules: Mapping[str, TorchModule], arguments: Mapping[str, tuple[str, ...]],
    functions: Mapping[str, int], *, axis: str | None, data: Axes, problems: Problems,
) -> Styles:  # fmt: skip
    """Return the styles that express a plan.

    Parameters
    ----------
    arguments, functions
        Path of a module's class → what its forward function takes, and how many of them it has.
    axis
        The axis of tensor parallelism; None without any.
    data
        The axes over which samples are sharded.
    """
    styles = Styles()
    for index, scope in enumerate(training.scopes):
        finder = _Finder(
            training=training, scope=scope, modules=modules, arguments=arguments, functions=functions, axis=axis,
            data=frozenset(data), problems=problems, styles=styles,
        )  # fmt: skip
        styles.scopes[index] = finder.find()
    return styles


@dataclass(slots=True, kw_only=True)
class _Finder:
    training: TrainingGraph
    scope: Scope
    modules: Mapping[str, TorchModule]
    arguments: Mapping[str, tuple[str, ...]]
    functions: Mapping[str, int]
    axis: str | None
    data: frozenset[str]
    problems: Problems
    styles: Styles
    found: dict[str, Style] = field(default_factory=dict)

    @property
    def assembly(self) -> Assembly:
        return self.scope.assembly

    def find(self) -> dict[str, Style]:
        for assigned in self.assembly.nodes:
            if assigned.node.name in self.modules:
                self._module(assigned)
            elif assigned.node.origin in self.modules:
                self.problems.add(assigned.node.origin, f"its {assigned.node.op} is a part of an operator whose "
                                  "normalised or summed dim is sharded; no style does that")  # fmt: skip
        for fanout in self.scope.fanouts:
            if fanout.kind == "parameter":
                self._parameter(fanout)
            elif not self._of_loss(fanout.value):
                self._value(fanout)
        return self.found

    # Modules

    def _module(self, assigned: AssignedNode) -> None:
        node = assigned.node
        over = {factor for factor, axes in assigned.strategy.factors if self.axis in axes}
        if assigned.strategy.kept:
            self.problems.add(node.name, f"its result stays a partial sum ({assigned.strategy}); no style keeps one")
        match node.op, sorted(over):
            case _, []:
                return
            case "linear", ["n"]:
                self.found[node.name] = Style("ColwiseParallel")
            case "linear", ["k"]:
                self.found[node.name] = Style("RowwiseParallel")
            case "embedding", ["vocab"]:
                self.found[node.name] = Style("RowwiseParallel", {"input_layouts": "Replicate()"})
            case op, [factor] if op in NORMS and (factor,) in node.rule.results[0][:-1]:
                dim = node.rule.results[0].index((factor,))
                given = {} if dim == 1 else {"sequence_dim": str(dim)}
                self.found[node.name] = Style("SequenceParallel", given | {"use_local_output": "True"})
            case op, factors:
                self.problems.add(node.name, f"{op} has {', '.join(factors)} over {self.axis}; "
                                  f"{self.modules[node.name].kind} has no style for that")  # fmt: skip

    def _style(self, node: str) -> str:
        found = self.found.get(node)
        return found.name if found else ""

    # Values

    def _of_loss(self, value: str) -> bool:
        loss = self.training.assignment.graph.root.outputs[0]
        made = self.assembly.node(value.partition(":")[0])
        return not self.assembly.name and made is not None and (made.node.origin or made.node.name) == loss

    def _value(self, fanout: Fanout) -> None:
        """Find the styles that move a value."""
        value = fanout.value
        for delivery in fanout.forward:
            way = delivery.redistribution
            if _only(way.source, self.data) != _only(way.target, self.data):
                readers = self._readers(fanout, delivery.readers)
                self.problems.add(value, f"it goes {way.source} → {way.target} over the axes of the samples for "
                                  f"{readers}; between modules only the axis of tensor parallelism moves")  # fmt: skip
                return
        source = self._over(fanout.source)
        ways = {
            (self._over(r.layout), self._over(r.raw) if r.raw is not None and fanout.gradient is not None else None)
            for r in fanout.readers
        }
        adjoint = Layout(source.dims)
        moved = [(target, raw) for target, raw in ways if target != source or raw not in {None, adjoint}]
        made = self._maker(value)
        if not moved:
            if any(self._reads_loss(r.node, r.scope) for r in fanout.readers) and source.dims and source.dims[-1]:
                self._logits(fanout, made)
            return
        targets = {target for target, _ in ways}
        raws = {raw for _, raw in ways if raw is not None}
        if len(targets) == 1 and len(raws) <= 1:
            target, raw = next(iter(targets)), next(iter(raws), None)
            if self._moved(fanout, made, source, target, raw):
                return
        texts = sorted(
            f"{source} → {target}" + (f", gradient {raw} → {adjoint}" if raw else "") for target, raw in ways
        )
        self.problems.add(value, f"it goes {'; '.join(texts)} for {self._readers(fanout)}; no style of a module "
                          "does that")  # fmt: skip

    def _moved(self, fanout: Fanout, made: str, source: Layout, target: Layout, raw: Layout | None) -> bool:
        """Note the style that moves a value in one way; False if there is none."""
        whole = Layout.replicated(len(source.dims))
        if self._style(made) == "RowwiseParallel" and source.partial and not target.partial and raw == target:
            if target != whole or self.modules[made].node.op == "embedding":
                self.found[made].arguments["output_layouts"] = placement(target)
            return True
        readers = {r.node for r in fanout.readers}
        columns = all(self._style(node) == "ColwiseParallel" for node in readers)
        if columns and not source.partial and target == whole and raw == Layout(whole.dims, (self.axis or "",)):
            return self._to_columns(fanout, source)
        last = Layout((*whole.dims[:-1], (self.axis or "",))) if whole.dims else whole
        rows = len(readers) == 1 and all(self._style(node) == "RowwiseParallel" for node in readers)
        if rows and source == whole and target == raw == last:
            self.found[next(iter(readers))].arguments["input_layouts"] = "Replicate()"
            return True
        if self._style(made) == "ColwiseParallel" and not source.partial and target == whole and raw == whole:
            self.found[made].arguments["output_layouts"] = "Replicate()"
            return True
        if made in self.modules and not self._style(made) and source == whole and raw in {None, target}:
            layouts = {"output_layouts": "Replicate()", "desired_output_layouts": placement(target)}
            self.found[made] = Style("PrepareModuleOutput", layouts)
            return not target.partial
        return False

    def _to_columns(self, fanout: Fanout, source: Layout) -> bool:
        """Let the readers' module, or the only reader, bring a value to all ranks."""
        readers = list(dict.fromkeys(r.node for r in fanout.readers))
        if len(fanout.readers) == 1:
            if source != Layout.replicated(len(source.dims)):
                self.found[readers[0]].arguments["input_layouts"] = placement(source)
            return True
        lists = containers(self.training.assignment.graph)
        nodes = [assigned for name in readers if (assigned := self.assembly.node(name)) is not None]
        module = common([owner(assigned, lists) for assigned in nodes])
        taken = self.arguments.get(module, ())
        if len(nodes) < len(readers) or fanout.value not in taken or self.functions[module] > 1:
            return False
        if self.found.setdefault(module, Style("PrepareModuleInput")).name != "PrepareModuleInput":
            return False
        given = self.found[module].arguments
        for name, text in (("input_layouts", placement(source)), ("desired_input_layouts", "Replicate()")):
            before = given.get(name, "").strip("()").split(", ") if name in given else ["None"] * len(taken)
            if name in given:
                return False
            before[taken.index(fanout.value)] = text
            given[name] = f"({', '.join(before)}{',' * (len(before) == 1)})"
        return True

    def _logits(self, fanout: Fanout, made: str) -> None:
        """Note that the loss reads logits that are sharded over the vocabulary."""
        only = all(self._reads_loss(r.node, r.scope) for r in fanout.readers)
        loss = self.training.assignment.graph.root.outputs[0]
        node = next(node for node in self.training.assignment.graph.root.nodes if node.name == loss)
        if self._style(made) != "ColwiseParallel" or not only:
            self.problems.add(fanout.value, f"the loss reads it as {fanout.source}, sharded over the vocabulary; "
                              "loss_parallel needs it straight from a column-parallel module")  # fmt: skip
        elif dict(node.attributes).get("label_smoothing"):
            self.problems.add(loss, "loss_parallel knows no label smoothing")
        else:
            self.found[made].arguments["use_local_output"] = "False"
            self.styles.loss_parallel = True

    def _reads_loss(self, node: str, scope: int) -> bool:
        assigned = self.training.assignment.assemblies[scope].node(node)
        return assigned is not None and assigned.node.origin == self.training.assignment.graph.root.outputs[0]

    def _maker(self, value: str) -> str:
        """Return the module of torch that makes a value; empty if none does."""
        found = (a.node for a in self.assembly.nodes if value in {v.name for v in a.node.results})
        node: Node | None = next(found, None)
        return node.name if node is not None and node.name in self.modules else ""

    # Parameters

    def _parameter(self, fanout: Fanout) -> None:
        """Hold a parameter to what its readers' styles make of it."""
        name, stored = fanout.value, self._over(fanout.source)
        rank = len(stored.dims)
        over = (self.axis or "",)
        for reader in fanout.readers:
            module = self.modules.get(reader.node)
            style = self._style(reader.node)
            bias = module is not None and reader.operand == 2
            expected = Layout.replicated(rank)
            if style == "ColwiseParallel" or (style == "RowwiseParallel" and module and module.node.op == "embedding"):
                expected = Layout((over, *((),) * (rank - 1)))
            elif style == "RowwiseParallel" and not bias:
                expected = Layout(((), over))
            if stored != expected:
                node = self.training.assignment.assemblies[reader.scope].node(reader.node)
                how = style or (
                    module.kind if module else f"{node.node.op if node else reader.node}, no module of torch,"
                )
                self.problems.add(name, f"it is stored as {fanout.source}, and {how} of {reader.node} stores it as "
                                  f"{expected}")  # fmt: skip
            raw = self._over(reader.raw) if reader.raw is not None else None
            reduced = raw is not None and bool(raw.partial)
            if reduced and style != "SequenceParallel":
                self.problems.add(name, f"its gradient is a partial sum over {self.axis} ({reader.raw}) in "
                                  f"{reader.node}; only SequenceParallel of a norm adds these up")  # fmt: skip
            if style != "RowwiseParallel" and self._over(reader.layout) != stored:
                self.problems.add(name, f"{reader.node} reads it as {reader.layout}, not as it is stored, "
                                  f"{fanout.source}")  # fmt: skip

    # Layouts

    def _over(self, layout: Layout) -> Layout:
        """Return what a layout is over the axis of tensor parallelism alone."""
        return _only(layout, frozenset({self.axis or ""}))

    def _readers(self, fanout: Fanout, positions: Iterable[int] | None = None) -> str:
        wanted = range(len(fanout.readers)) if positions is None else positions
        return ", ".join(dict.fromkeys(fanout.readers[i].node for i in wanted))


def placement(layout: Layout) -> str:
    """Return the placement over one axis that a layout is."""
    dims = [dim for dim, axes in enumerate(layout.dims) if axes]
    return f"Shard({dims[0]})" if dims else "Replicate()"


def _only(layout: Layout, axes: frozenset[str]) -> Layout:
    dims = tuple(tuple(axis for axis in dim if axis in axes) for dim in layout.dims)
    return Layout(dims, tuple(axis for axis in layout.partial if axis in axes), layout.reduce)
