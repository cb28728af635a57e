"""Walk the graph once and give every node its strategy.

Pinned factors come from the decisions; the others follow the operands (`follow`). A repeated block is cut into runs
of layers on which the same decisions hold; each run is worked out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..core.assignment import Assembly, AssignedNode, Assignment, ParameterLayout, Symbols
from ..core.graph import Block, ModelGraph, Node, Parameter, Repeat
from ..core.layers import list_of
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..core.plan import Decisions
from ..core.stage import plain
from ..core.strategy import ShardStrategy, layouts, problems
from ..core.symbol import evaluate
from ..core.tensor import TensorMeta
from ..errors import Diagnostic, PlannerError, RuleError
from ..ops import OPS, Cut
from .follow import follow
from .learnt import begins_unlike, learnt_values
from .parameter import parameter_layout
from .segments import Segmenting
from .target import EVERYWHERE, Span, covers, span
from .uneven import uneven
from .unknown import unknown

Layouts = tuple[Layout, ...]


def assign(graph: ModelGraph, decisions: Decisions) -> Assignment:
    """Return the assignment that the decisions make of the graph.

    Raises
    ------
    RuleError, LayoutError
        When a decision is not legal for an operator that it names.
    PlannerError
        `plan.target-unmatched` when decisions exist and none names anything in this model; single ones become warnings;
        `plan.seq-too-long` for more tokens than the model has positions for.
    """
    if 0 < graph.longest_seq < decisions.seq:
        raise PlannerError(
            "plan.seq-too-long",
            f"{graph.name} has positions for {graph.longest_seq:,} tokens, not for the plan's {decisions.seq:,}.",
            f"Use at most {graph.longest_seq:,} tokens a sequence.",
        )
    work = _Work(graph, decisions)
    work.root()
    assemblies = (work.assembled[""][0], *(run for name, runs in work.assembled.items() if name for run in runs))
    findings = (*work.diagnostics, *uneven(assemblies, work.symbols, decisions.mesh), *unknown(assemblies))
    findings = (*findings, *_unmatched(graph, decisions))
    return Assignment(
        graph=graph, mesh=decisions.mesh, symbols=work.symbols, assemblies=assemblies, diagnostics=findings
    )


@dataclass
class _Work:
    """State of one walk."""

    graph: ModelGraph
    decisions: Decisions
    diagnostics: list[Diagnostic] = field(default_factory=list)
    assembled: dict[str, list[Assembly]] = field(default_factory=dict)
    known: dict[tuple[object, ...], tuple[ShardStrategy, Layouts, Layouts]] = field(default_factory=dict)
    """Strategy and layouts by all that they follow from: equal stages and equal unrolled layers have equal ones."""

    learnt: frozenset[str] = field(init=False)
    """Values of the root that have a gradient."""

    def __post_init__(self) -> None:
        self.learnt = learnt_values(self.graph)

    @property
    def mesh(self) -> DeviceMesh:
        return self.decisions.mesh

    @property
    def symbols(self) -> Symbols:
        return self.decisions.symbols

    def root(self) -> None:
        block = self.graph.root
        self.assembled[""] = []
        layouts_of: dict[str, Layout] = {}
        first_reads: dict[str, Layout] = {}
        nodes: list[AssignedNode] = []
        segmenting = Segmenting(self.decisions.recompute, whole=self._lists())
        for item in block.body:
            if isinstance(item, Repeat):
                self._repeat(item, layouts_of, first_reads)
                segmenting.end()
            else:
                segment = segmenting.enter(item, 0)
                nodes += self._node(item, layouts_of, first_reads, layer=0, segment=segment)
        # Data is given whole or cut, not as parts of sums, even to who would read those.
        inputs = tuple((v.name, v.meta, first_reads.get(v.name, _whole(v.meta)).adjoint) for v in block.inputs)
        self.assembled[""].append(
            Assembly(
                name="", nodes=tuple(nodes), inputs=inputs,
                parameters=tuple(self._kept(self._parameters(block.parameters, first_reads, layer=0))),
            )
        )  # fmt: skip

    def _kept(self, parameters: Iterable[ParameterLayout]) -> Iterator[ParameterLayout]:
        """Yield the parameters outside the layers; copies that all layers read are not dropped after each."""
        shared = {name for repeat in self.graph.root.repeats for name in repeat.operands}
        for placed in parameters:
            name = placed.parameter.name
            if placed.regather and name in shared:
                self.diagnostics.append(
                    Diagnostic(
                        code="plan.regather-shared", severity="note", subject=name,
                        message=f"{name} is read by all layers, so its copy is fetched once and kept.",
                        hint="Nothing else changes.",
                    )
                )  # fmt: skip
                placed = replace(placed, regather=False)
            yield placed

    def _repeat(self, repeat: Repeat, outer: dict[str, Layout], first_reads: dict[str, Layout]) -> None:
        """Cut the repeat into runs and assign each; the carried layout of a run is what its block gives back.

        A captured input or parameter of the model lies as its first reader wants it, in whatever scope that is.
        """
        bounds = _cuts(repeat, self.decisions, first_alone=begins_unlike(repeat, self.learnt))
        runs = self.assembled.setdefault(repeat.name, [])
        carried_count = len(repeat.results)
        bound = tuple(zip(repeat.block.inputs, repeat.operands, strict=True))
        lying = first_reads | outer
        carried = [lying.get(name, _whole(v.meta)).adjoint for v, name in bound[:carried_count]]
        captured_layouts = {v.name: outer[name] for v, name in bound[carried_count:] if name in outer}
        operands = list(repeat.operands)
        names = [value.name for value in repeat.block.inputs]
        for index, (start, stop) in enumerate(pairwise(bounds)):
            for _ in range(4):
                nodes, reads, made = self._block(repeat.block, carried, captured_layouts, start)
                settled = [made[name].adjoint for name in repeat.block.outputs]
                if settled == carried:
                    break
                carried = settled
            wanted = reads | dict(zip(names, carried, strict=False))
            for inner, name in zip(names, operands, strict=True):
                if name not in outer and inner in wanted and not index:
                    first_reads.setdefault(name, wanted[inner])
            last = stop == repeat.count
            results = tuple(v.name if last else f"{v.name}@{stop}" for v in repeat.results)
            runs.append(
                Assembly(
                    name=repeat.name, start=start, stop=stop, nodes=tuple(nodes),
                    parameters=self._parameters(repeat.block.parameters, reads, layer=start),
                    inputs=tuple(
                        (v.name, v.meta, layout)
                        for v, layout in zip(repeat.block.inputs, carried, strict=False)
                    ),
                    carried=tuple(zip(names, repeat.block.outputs, strict=False)),
                    operands=tuple(zip(names, operands, strict=True)),
                    results=results, position=index, period=repeat.period,
                )
            )  # fmt: skip
            operands[:carried_count] = results
        outer.update({value.name: layout for value, layout in zip(repeat.results, carried, strict=True)})

    def _block(
        self, block: Block, carried: list[Layout], captured: Mapping[str, Layout], layer: int
    ) -> tuple[list[AssignedNode], dict[str, Layout], dict[str, Layout]]:
        made = {value.name: layout for value, layout in zip(block.inputs, carried, strict=False)}
        made.update(captured)
        reads: dict[str, Layout] = {}
        nodes: list[AssignedNode] = []
        segmenting = Segmenting(self.decisions.recompute, whole=self._lists())
        for node in block.nodes:
            nodes += self._node(node, made, reads, layer, segmenting.enter(node, layer))
        return nodes, reads, made

    def _lists(self) -> tuple[str, ...]:
        """Return the paths of the lists of layers."""
        return tuple(dict.fromkeys(list_of(repeat.name)[0] for repeat in self.graph.root.repeats))

    def _node(
        self, node: Node, made: dict[str, Layout], reads: dict[str, Layout], layer: int, segment: str
    ) -> tuple[AssignedNode, ...]:
        """Assign one node (or its parts), note its results' layouts in `made` and first reads in `reads`."""
        pinned, kept = self._pins(node, layer)
        arriving = {i: made[name] for i, name in enumerate(node.operands) if name in made}
        given = tuple(arriving.items()), tuple(pinned.items()), tuple(kept.items())
        key = node.op, node.attributes, node.rule, given
        if key in self.known:
            strategy, operands, results = self.known[key]
            alike = AssignedNode(node=node, strategy=strategy, operands=operands, results=results, segment=segment)
            return _noted((alike,), made, reads)
        sizes = {f: evaluate(size, self.symbols) for f, size in node.rule.sizes}
        factors = follow(node.rule, arriving, pinned, sizes, self.mesh, tuple(kept))
        strategy = ShardStrategy.of(factors, kept)
        found = problems(node.rule, strategy, sizes, self.mesh, node.name)
        if found:
            first = found[0]
            raise RuleError(first.code, first.message, first.hint, subject=first.subject)
        cuts = {factor: Cut(size, self.mesh.size_of(strategy.axes(factor))) for factor, size in sizes.items()}
        parts = OPS[node.op].parts(node, strategy, cuts)
        assigned = tuple(_assigned(part, its, segment) for part, its in parts or ((node, strategy),))
        if not parts:
            self.known[key] = strategy, assigned[0].operands, assigned[0].results
        return _noted(assigned, made, reads)

    def _pins(self, node: Node, layer: int) -> tuple[dict[str, Axes], dict[str, tuple[int, ...]]]:
        pinned: dict[str, Axes] = {}
        factors = node.rule.factors
        for factor in self.decisions.factors:
            if factor.factor in factors and covers(factor.target, node.name, layer):
                pinned[factor.factor] = factor.axes
        kept = {k.axis: k.carriers for k in self.decisions.kept if covers(k.target, node.name, layer)}
        return pinned, kept

    def _parameters(
        self, parameters: tuple[Parameter, ...], reads: Mapping[str, Layout], layer: int
    ) -> tuple[ParameterLayout, ...]:
        firsts: dict[str, Layout] = {}
        for p in parameters:
            firsts.setdefault(plain(p.name), reads.get(p.name, _whole(p.meta)))
        return tuple(
            parameter_layout(
                p, reads.get(p.name, _whole(p.meta)), firsts[plain(p.name)],
                [d for d in self.decisions.parameters if covers(d.target, p.name, layer)],
                self.mesh, self.diagnostics,
            )
            for p in parameters
        )  # fmt: skip


def _assigned(node: Node, strategy: ShardStrategy, segment: str) -> AssignedNode:
    operands, results = layouts(node.rule, strategy)
    return AssignedNode(node=node, strategy=strategy, operands=operands, results=results, segment=segment)


def _noted(
    assigned: tuple[AssignedNode, ...], made: dict[str, Layout], reads: dict[str, Layout]
) -> tuple[AssignedNode, ...]:
    """Note what nodes read first and what they make, and return them."""
    for part in assigned:
        for name, layout in zip(part.node.operands, part.operands, strict=True):
            reads.setdefault(name, layout)
        made.update({v.name: lay for v, lay in zip(part.node.results, part.results, strict=True)})
    return assigned


def _whole(meta: TensorMeta) -> Layout:
    return Layout.replicated(len(meta.shape))


def _cuts(repeat: Repeat, decisions: Decisions, *, first_alone: bool) -> list[int]:
    """Return where the runs of a repeat begin, and its end."""
    bounds = {0, repeat.count} | ({1} if first_alone else set())
    names = [node.name for node in repeat.block.nodes] + [p.name for p in repeat.block.parameters]
    for target in decisions.targets:
        found: set[Span] = {s for name in names if (s := span(target, name)) is not None}
        bounds |= {bound for pair in found - {EVERYWHERE} for bound in pair if 0 < bound < repeat.count}
    return sorted(bounds)


def _unmatched(graph: ModelGraph, decisions: Decisions) -> list[Diagnostic]:
    """Return a warning per decision that names nothing; raise if none names anything."""
    nodes = [(n, count) for count, block in graph.counted_blocks for n in block.nodes]
    parameters = [(p.name, count) for count, block in graph.counted_blocks for p in block.parameters]

    def hit(target: str, name: str, count: int) -> bool:
        found = span(target, name)
        return found is not None and found[0] < count

    missed = [
        (d.target, f"factor {d.factor}")
        for d in decisions.factors
        if not any(d.factor in n.rule.factors and hit(d.target, n.name, count) for n, count in nodes)
    ]
    missed += [(d.target, f"kept axis {d.axis}") for d in decisions.kept
               if not any(hit(d.target, n.name, count) for n, count in nodes)]  # fmt: skip
    missed += [(d.target, "parameter layout") for d in decisions.parameters
               if not any(hit(d.target, name, count) for name, count in parameters)]  # fmt: skip
    missed += [(d.target, "recompute") for d in decisions.recompute
               if not any(hit(d.target, n.name, count) for n, count in nodes)]  # fmt: skip
    total = len(decisions.targets)
    if missed and len(missed) == total:
        raise PlannerError(
            "plan.target-unmatched",
            f"None of the plan's {total} decisions names anything in {graph.name} (first: {missed[0][0]!r}).",
            f"Use paths of this model, such as {nodes[-1][0].name!r}.",
        )
    return [
        Diagnostic(
            code="plan.target-unmatched", severity="warning", subject=target,
            message=f"The decision on {target!r} ({what}) names nothing in {graph.name}; it is kept and has no effect.",
            hint="Check the path and the factor's name.",
        )
        for target, what in missed
    ]  # fmt: skip
