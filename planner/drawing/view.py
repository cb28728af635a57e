"""Fold a training graph along its module tree for drawing.

A run of layers is drawn once, whatever its length, so the view does not grow with the number of layers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod

from ..core.assignment import Assembly, AssignedNode, Fanout, ParameterLayout, TrainingGraph
from ..core.bucket import LOCAL
from ..core.chunk import lengths
from ..core.graph import ModelGraph, Node
from ..core.layers import Layers, list_of
from ..core.layout import Layout
from ..core.plan import Decisions, FactorDecision, Precision
from ..core.report import CollectiveRow, Report
from ..core.rule import TensorFactors
from ..core.stage import RECEIVE
from ..core.strategy import ShardStrategy
from ..core.symbol import evaluate
from ..core.tensor import DTYPE_BYTES, TensorMeta
from ..core.view import Badge, Cell, Choice, EdgeView, FactorView, GroupView, NodeView, PlanView, TensorView
from ..errors import PlannerError
from ..ops import OPS
from .buckets import draw_buckets, shared_buckets

Seconds = Mapping[tuple[str, str], tuple[float, float]]
"""Scope title and node name → seconds of its forward and backward."""
Covers = Callable[[str, str, int], bool]
"""Target, name and layer → whether the target names it."""


def draw(
    training: TrainingGraph, decisions: Decisions, precision: Precision, report: Report, seconds: Seconds,
    bucket_calls: Sequence[tuple[int, float]], covers: Covers,
) -> PlanView:  # fmt: skip
    """Return the view of a priced plan.

    Parameters
    ----------
    bucket_calls
        Of each of the training graph's buckets: how many collectives one takes, and their seconds.
    """
    drawer = _Drawer(training, decisions, precision, seconds, covers)
    return PlanView(
        model=training.assignment.graph.name,
        mesh=training.assignment.mesh.axes,
        groups=tuple(drawer.groups()),
        nodes=tuple(drawer.nodes()),
        edges=tuple(drawer.edges(report.collectives)),
        buckets=tuple(draw_buckets(training, decisions.microbatches, DTYPE_BYTES[precision.gradient], bucket_calls)),
    )


def node_choices(
    training: TrainingGraph,
    node_id: str,
    choices: Callable[[Node, ShardStrategy, Mapping[str, int]], tuple[Choice, ...]],
) -> tuple[Choice, ...]:
    """Return what may be clicked at a node, or at the composite operator that it is a part of.

    Raises
    ------
    PlannerError
        `plan.node-unknown`.
    """
    for scope in training.scopes:
        parts = [n for n in scope.assembly.nodes if _id(scope.assembly, n.node.name) == node_id]
        if not parts:
            continue
        name = parts[0].node.origin or parts[0].node.name
        whole = _original(training, scope.assembly, name)
        siblings = [n for n in scope.assembly.nodes if (n.node.origin or n.node.name) == name]
        factors = {f: axes for n in siblings for f, axes in n.strategy.factors if f in whole.rule.factors}
        kept = {axis: carriers for n in siblings for axis, carriers in n.strategy.kept}
        sizes = {f: evaluate(size, training.assignment.symbols) for f, size in whole.rule.sizes}
        return choices(whole, ShardStrategy.of(factors, kept), sizes)
    raise PlannerError("plan.node-unknown", f"The plan has no node {node_id!r}.", "Load the plan's view again.")


def _original(training: TrainingGraph, assembly: Assembly, name: str) -> Node:
    """Return the graph's own node, before parts took its place."""
    root = training.assignment.graph.root
    blocks = [root, *(repeat.block for repeat in root.repeats if repeat.name == assembly.name)]
    return next(node for block in blocks for node in block.nodes if node.name == name)


def _span(layers: Layers, step: int) -> str:
    """Return the first and last of every `step`-th layer, for people."""
    last = layers.index((layers.count - 1) // step * step)
    span = f"{layers.first}–{last}" if last > layers.first else str(last)
    return f"{span} by {step}" if step > 1 and last > layers.first else span


def _id(assembly: Assembly, name: str) -> str:
    return f"{assembly.title}:{name}"


def _placed(placed: ParameterLayout | None) -> dict[str, str]:
    """Return what an edge tells of its parameter's optimizer state and places."""
    if placed is None:
        return {}
    return {
        "optimizer": str(placed.optimizer), "place": placed.place, "optimizer_place": placed.optimizer_place,
    }  # fmt: skip


def _layer_counts(graph: ModelGraph) -> dict[str, int]:
    """Return how many layers each list has: its modules that stand alone, and those of its repeats."""
    counts: dict[str, int] = {}
    for repeat in graph.root.repeats:
        path = list_of(repeat.name)[0]
        counts[path] = counts.get(path, 0) + repeat.count * repeat.period
    for module in graph.modules:
        path, _, token = module.path.rpartition(".")
        if path in counts and token.isdecimal():
            counts[path] += 1
    return counts


class _Drawer:
    """One view under construction."""

    def __init__(
        self, training: TrainingGraph, decisions: Decisions, precision: Precision, seconds: Seconds, covers: Covers
    ) -> None:
        self.training = training
        self.decisions = decisions
        self.covers = covers
        self.seconds = seconds
        self.shared = shared_buckets(training)
        self.dtypes = {"compute": precision.compute, "gradient": precision.gradient}
        self.parameters = {p.parameter.name for s in training.scopes for p in s.assembly.parameters}
        self.made = {
            a.title: {v.name: v.meta for n in a.nodes for v in n.node.results} for a in training.assignment.assemblies
        }
        graph = training.assignment.graph
        self.classes = {module.path: module.class_name for module in graph.modules}
        self.totals = _layer_counts(graph)
        self.runs = {result: run for run in reversed(training.assignment.assemblies[1:]) for result in run.results}
        self.chains: dict[tuple[int, str, str], tuple[GroupView, ...]] = {}
        self.factors: dict[tuple[object, ...], tuple[FactorView, ...]] = {}
        self.cells: dict[tuple[TensorMeta, TensorFactors | None, Layout], tuple[Cell, ...]] = {}

    def groups(self) -> Iterator[GroupView]:
        """Yield modules, runs and composite operators, parents first."""
        seen: set[str] = set()
        for index, scope in enumerate(self.training.scopes):
            for assigned in scope.assembly.nodes:
                for group in self._around(index, assigned.node):
                    if group.id not in seen:
                        seen.add(group.id)
                        yield group

    def _around(self, scope: int, node: Node) -> tuple[GroupView, ...]:
        """Return the groups around a node from the outside in: the same for all nodes of a module."""
        key = scope, node.module, node.origin or (node.name if node.name == node.module else "")
        if key not in self.chains:
            self.chains[key] = tuple(self._chain(self.training.scopes[scope].assembly, node))
        return self.chains[key]

    def _chain(self, assembly: Assembly, node: Node) -> Iterator[GroupView]:
        name = node.origin or node.name
        tokens = node.module.split(".") if node.module else []
        if name == node.module:
            tokens = tokens[:-1]
        parent = ""
        for count in range(1, len(tokens) + 1):
            path = ".".join(tokens[:count])
            inside = bool(assembly.name) and path.startswith(f"{assembly.path}.")
            group = _id(assembly, path) if inside else f":{path}"
            label, start, step, total = tokens[count - 1], 0, 1, 0
            if assembly.name and path in assembly.templates:
                layers = assembly.layers
                start, step = layers.first + assembly.templates.index(path), assembly.period
                label = _span(layers.part(start - layers.first, layers.count), step)
                total = self.totals.get(assembly.path, 0)
            yield GroupView(
                id=group, path=path, label=label, class_name=self.classes.get(path, ""), parent=parent,
                layers=assembly.count if inside else 1, start=start, total=total, step=step,
            )  # fmt: skip
            parent = group
        if node.origin:
            label = re.split(r"[./]", name)[-1]
            yield GroupView(
                id=_id(assembly, f"{name}#parts"), path=name, label=label, class_name="", parent=parent,
                layers=assembly.count,
            )  # fmt: skip

    def nodes(self) -> Iterator[NodeView]:
        """Yield every operator."""
        for index, scope in enumerate(self.training.scopes):
            for assigned in scope.assembly.nodes:
                chain = self._around(index, assigned.node)
                yield self._node(scope.assembly, assigned, chain[-1].id if chain else "")

    def _node(self, assembly: Assembly, assigned: AssignedNode, group: str) -> NodeView:
        node, definition = assigned.node, OPS[assigned.node.op]
        names = definition.operand_names
        slots = [names[i] if i < len(names) else f"operand {i}" for i in range(len(node.operands))]
        results = list(definition.results) or ["result"]
        tensors = [
            self._tensor(slot, value, self._meta(assembly, value), factors, layout)
            for slot, value, factors, layout in zip(
                slots, node.operands, node.rule.operands, assigned.operands, strict=True
            )
        ]
        made = [
            self._tensor(slot, value.name, value.meta, factors, layout)
            for slot, value, factors, layout in zip(
                results, node.results, node.rule.results, assigned.results, strict=False
            )
        ]
        forward, backward = self.seconds.get((assembly.title, node.name), (0.0, 0.0))
        label = re.split(r"[./~]", node.name)[-1]
        if node.op == RECEIVE:
            label = f"to stage {node.name.rpartition('@stage')[2]}"
        terms = " + ".join("·".join(slots[i] for i in term) for term in node.rule.terms)
        return NodeView(
            id=_id(assembly, node.name), name=node.name, label=label, op=node.op, summary=definition.summary,
            target=(node.origin or node.name).replace("/", "."), group=group, scope=assembly.title,
            layers=assembly.count, rule=str(node.rule), terms=terms, operands=tuple(tensors), results=tuple(made),
            factors=self._factors(assembly, assigned, (*slots, *results)), forward_s=forward,
            backward_s=backward, recomputed=bool(assigned.segment),
        )  # fmt: skip

    def _factors(self, assembly: Assembly, assigned: AssignedNode, slots: tuple[str, ...]) -> tuple[FactorView, ...]:
        """Return the factors of a node: the same for operators of one rule and strategy that the same pins name."""
        name = assigned.node.origin or assigned.node.name
        deciding = tuple(d for d in self.decisions.factors if self.covers(d.target, name, assembly.start))
        key = assigned.node.rule, assigned.strategy, slots, deciding
        if key not in self.factors:
            self.factors[key] = tuple(self._factor_views(assigned, slots, deciding))
        return self.factors[key]

    def _factor_views(
        self, assigned: AssignedNode, slots: tuple[str, ...], deciding: tuple[FactorDecision, ...]
    ) -> Iterator[FactorView]:
        node = assigned.node
        blocked = dict(node.rule.blocked)
        tensors = (*node.rule.operands, *node.rule.results)
        for factor, size in node.rule.sizes:
            touches = tuple(
                (slot, dim)
                for slot, tensor in zip(slots, tensors, strict=False)
                for dim, factors in enumerate(tensor)
                if factor in factors
            )
            yield FactorView(
                name=factor, size=evaluate(size, self.training.assignment.symbols), role=node.rule.role(factor),
                reason=blocked.get(factor, ""), axes=assigned.strategy.axes(factor),
                pinned=any(d.factor == factor for d in deciding),
                pins=tuple(d.target for d in deciding if d.factor == factor), touches=touches,
            )  # fmt: skip

    def _tensor(
        self, slot: str, value: str, meta: TensorMeta, factors: TensorFactors | None, layout: Layout
    ) -> TensorView:
        assignment = self.training.assignment
        shape = meta.concrete(assignment.symbols)
        local = layout.local_shape(shape, assignment.mesh, subject=value)
        dtype = self.dtypes.get(meta.dtype, meta.dtype)
        cells = self.cells.get((meta, factors, layout))
        if cells is None:
            cells = self.cells[meta, factors, layout] = tuple(
                Cell(
                    factors=factors[i] if factors else (), size=str(meta.shape[i]), total=shape[i], local=local[i],
                    least=min(lengths(shape[i], layout.dims[i], assignment.mesh)), axes=layout.dims[i],
                )
                for i in range(len(shape))
            )  # fmt: skip
        return TensorView(
            slot=slot, value=value, dtype=dtype, layout=str(layout), cells=cells, partial=layout.partial,
            reduce=layout.reduce, local_bytes=prod(local) * DTYPE_BYTES[dtype], parameter=value in self.parameters,
        )  # fmt: skip

    def _meta(self, assembly: Assembly, value: str) -> TensorMeta:
        for other in (assembly, self.training.assignment.assemblies[0]):
            for name, meta, _ in other.inputs:
                if name == value:
                    return meta
            if (placed := other.parameter(value)) is not None:
                return placed.parameter.meta
            made = self.made[other.title]
            if value in made:
                return made[value]
        outer = dict(assembly.operands)
        if value in outer and outer[value] != value:
            return self._meta(self.training.assignment.assemblies[0], outer[value])
        run = self.runs[value]
        return run.inputs[run.results.index(value)][1]

    def edges(self, rows: tuple[CollectiveRow, ...]) -> Iterator[EdgeView]:
        """Yield every value with its readers and its collectives."""
        by_value: dict[tuple[str, str], list[CollectiveRow]] = {}
        for row in rows:
            by_value.setdefault((row.scope, row.value), []).append(row)
        for index, scope in enumerate(self.training.scopes):
            assembly = scope.assembly
            makers = {v.name: n.node.name for n in assembly.nodes for v in n.node.results}
            for fanout in scope.fanouts:
                producer = self._producer(assembly, makers, fanout)
                ids = [self._reader(index, r.scope, r.node, r.operand, fanout) for r in fanout.readers]
                rows_here = by_value.get((assembly.title, fanout.value), ())
                badges = [self._badge(row, fanout, ids, self._buckets(index, row)) for row in rows_here]
                placed = assembly.parameter(fanout.value) if fanout.kind == "parameter" else None
                yield EdgeView(
                    id=_id(assembly, fanout.value), value=fanout.value,
                    label=re.split(r"[./~]", fanout.value)[-1], kind=fanout.kind, producer=producer,
                    readers=tuple(dict.fromkeys(i for i in ids if i)),
                    tensor=self._tensor("", fanout.value, fanout.meta, None, fanout.source),
                    gradient=str(fanout.gradient) if fanout.gradient else "", badges=tuple(badges),
                    regather=fanout.regather, deferred=fanout.deferred, **_placed(placed),
                )  # fmt: skip

    def _producer(self, assembly: Assembly, makers: Mapping[str, str], fanout: Fanout) -> str:
        """Return the id of the node that makes a value; a run's result is made by its output node."""
        if fanout.value in makers:
            return _id(assembly, makers[fanout.value])
        run = self.runs.get(fanout.value)
        if run is not None and not assembly.name:
            output = run.carried[run.results.index(fanout.value)][1]
            makers = {v.name: n.node.name for n in run.nodes for v in n.node.results}
            return _id(run, makers.get(output, output))
        return ""

    def _reader(self, own: int, scope: int, node: str, operand: int, fanout: Fanout) -> str:
        """Return the id of a reading node; a run that takes a value in reads it with its first node that does."""
        assembly = self.training.assignment.assemblies[scope]
        if assembly.node(node) is not None:
            return _id(assembly, node)
        if own != scope and operand < len(assembly.inputs):
            inner = assembly.inputs[operand][0]
            return next((_id(assembly, n.node.name) for n in assembly.nodes if inner in n.node.operands), "")
        return ""

    def _buckets(self, scope: int, row: CollectiveRow) -> tuple[int, ...]:
        """Return the positions of the buckets that do a row's collective for other gradients as well."""
        shares = row.reduces and row.kind not in LOCAL
        return self.shared.get((scope, row.value, row.readers), ()) if shares else ()

    def _badge(self, row: CollectiveRow, fanout: Fanout, ids: list[str], buckets: tuple[int, ...]) -> Badge:
        named = [i for i, reader in zip(ids, fanout.readers, strict=True) if i and reader.node in row.readers]
        return Badge(
            phase=row.phase, kind=row.kind, axes=row.axes, group_size=row.group_size,
            payload_bytes=row.payload_bytes, wire_bytes=row.wire_bytes, seconds=row.seconds, count=row.count,
            source=row.source, target=row.target, readers=tuple(dict.fromkeys(named)),
            buckets=buckets,
        )  # fmt: skip
