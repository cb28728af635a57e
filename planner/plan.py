"""A plan as its user holds it: a model and the decisions on it. Each method gives a new plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import TypeVar

from .assign import sample_factors, span
from .core.cluster import ClusterSpec
from .core.graph import ModelGraph
from .core.layout import Layout
from .core.mesh import Axes, DeviceMesh
from .core.plan import (
    Decisions,
    FactorDecision,
    KeepDecision,
    ParameterDecision,
    PipelineDecision,
    Preset,
    RecomputeDecision,
    StageDecision,
)
from .core.symbol import evaluate
from .core.tensor import DTYPE_BYTES
from .errors import PlannerError
from .hardware import cluster as cluster_named
from .hardware import precision as precision_named
from .ops import OPS
from .presets import PRESETS
from .schedules import part_count, pipeline_of
from .surfaces import Counts, Side, decide

Named = TypeVar("Named", FactorDecision, RecomputeDecision)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A model graph with the decisions on how to train it; make one with `Plan.new`."""

    graph: ModelGraph
    decisions: Decisions

    def __post_init__(self) -> None:
        d = self.decisions
        self._check_sizes()
        if d.global_batch % d.microbatches:
            raise PlannerError(
                "plan.microbatches",
                f"{d.global_batch} {'sequences' if d.seq else 'samples'} can't be cut into "
                f"{d.microbatches} equal microbatches "
                f"({d.global_batch} % {d.microbatches} = {d.global_batch % d.microbatches}).",
                "Use a number of microbatches that divides the global batch.",
            )
        _check_compression(d)
        self.cluster.must_fit(d.mesh)
        if d.pipeline is not None:
            self._check_pipeline(d.pipeline)

    def _check_sizes(self) -> None:
        """Hold batch and sequence to what the model leaves open."""
        d, name, symbols = self.decisions, self.graph.name, self.graph.symbols
        sizes = {"global_batch": d.global_batch, "microbatches": d.microbatches} | ({"seq": d.seq} if d.seq else {})
        for what, value in sizes.items():
            if value < 1:
                raise PlannerError("plan.not-positive", f"{what} is {value}.", "Give a number of at least 1.")
        if "S" in symbols and not d.seq:
            raise PlannerError(
                "plan.seq-missing", f"{name} takes sequences, and nothing says how long.", "Give seq, e.g. 2048."
            )
        if d.seq and "S" not in symbols:
            raise PlannerError(
                "plan.seq-without", f"{name} has no sequence length that could be {d.seq}.", "Leave seq out."
            )
        if "B" not in symbols and d.global_batch > 1:
            raise PlannerError(
                "plan.batch-fixed",
                f"{name} fixes its batch: a step takes its inputs as they are, once, not {d.global_batch} times.",
                "Use a global_batch of 1, or load the model with an open batch.",
            )

    def _check_pipeline(self, pipeline: PipelineDecision) -> None:
        """Hold the pipeline to its axis, and its schedule to the ranks and microbatches that there are."""
        d = self.decisions
        ranks = d.mesh.size(pipeline.axis)
        sharded = next((name for name, axes in _axes_by_target(d) if pipeline.axis in axes), None)
        if sharded is not None:
            raise PlannerError(
                "pipeline.axis-used",
                f"The stages lie along {pipeline.axis}, and {sharded!r} is sharded over it.",
                "Give the pipeline an axis of its own.", subject=sharded,
            )  # fmt: skip
        pipeline_of(pipeline.schedule, ranks, d.microbatches, pipeline.per_rank)

    @property
    def parts(self) -> int:
        """Number of parts that the model is cut into: 1 without a pipeline."""
        d = self.decisions
        if d.pipeline is None:
            return 1
        return part_count(d.pipeline.schedule, d.mesh.size(d.pipeline.axis), d.microbatches, d.pipeline.per_rank)

    @staticmethod
    def new(
        graph: ModelGraph,
        *,
        cluster: str,
        mesh: Mapping[str, int] | DeviceMesh | str,
        global_batch: int,
        seq: int = 0,
        microbatches: int = 1,
        precision: str = "bf16",
    ) -> Plan:
        """Start a plan without any sharding.

        Parameters
        ----------
        cluster
            Nodes × devices per node - device, e.g. `8x8-h100-sxm`.
        mesh
            Axis → size, or the text `dp:8,tp:8`.
        global_batch, seq
            Samples per optimizer step; tokens per sequence, where the model's samples are sequences.
        """
        return Plan(
            graph=graph,
            decisions=Decisions(
                cluster=cluster, mesh=_mesh(mesh), global_batch=global_batch, seq=seq, microbatches=microbatches,
                precision=precision,
            ),
        )  # fmt: skip

    @property
    def cluster(self) -> ClusterSpec:
        """The cluster that the plan is for."""
        return cluster_named(self.decisions.cluster)

    def shard(
        self, target: str, factors: Mapping[str, str | Iterable[str]] | Counts, *, side: Side | None = None
    ) -> Plan:
        """Shard factors of the operators that `target` names over mesh axes; an empty tuple keeps a factor whole.

        Parameters
        ----------
        factors
            Axes of factors; or a MindSpore strategy, a tuple an input with a count a dim. Counts put parts on ranks as
            MindSpore does, which may split mesh axes.
        side
            Of such a strategy: where the repetition goes if it does not use all devices.

        Examples
        --------
        `plan.shard("layers.*.mlp.gate_proj", {"batch": ("dp",), "n": ("tp",)})`
        """
        if not isinstance(factors, Mapping):
            return self._counted(target, factors, side)
        added = []
        for factor, axes in factors.items():
            names = (axes,) if isinstance(axes, str) else tuple(axes)
            for axis in names:
                self.decisions.mesh.size(axis)
            added.append(FactorDecision(target=target, factor=factor, axes=names))
        return self._with(factors=_replaced(self.decisions.factors, added))

    def _counted(self, target: str, counts: Counts, side: Side | None) -> Plan:
        """Shard by counts: every factor of the operators gets the axes that its count means."""
        blocks = [self.graph.root, *(repeat.block for repeat in self.graph.root.repeats)]
        nodes = [node for block in blocks for node in block.nodes if span(target, node.name) is not None]
        if not nodes:
            raise PlannerError(
                "plan.target-unmatched", f"{target!r} names no operator of {self.graph.name}.",
                "Use paths of this model.", subject=target,
            )  # fmt: skip
        d = self.decisions
        names = {node.op: tuple(name.rstrip("?") for name in OPS[node.op].operands) for node in nodes}
        finer, axes = decide(nodes, counts, d.symbols, d.mesh, side=side, names=names)
        plan = self
        for axis, sizes, _ in finer.splits:
            plan = plan.split_axis(axis, sizes)
        return plan.shard(target, axes)

    def release(self, target: str, factor: str) -> Plan:
        """Forget the decision on a factor: it follows the operands again."""
        left = tuple(d for d in self.decisions.factors if (d.target, d.factor) != (target, factor))
        return self._with(factors=left)

    def clear(self) -> Plan:
        """Forget all decisions on sharding, places and recompute; model, cluster, mesh and batch stay."""
        return self._with(factors=(), kept=(), parameters=(), recompute=())

    def on(self, *, cluster: str, mesh: Mapping[str, int] | DeviceMesh | str) -> Plan:
        """Move the plan to another cluster and mesh; axes that the new mesh lacks are taken from the decisions."""
        grid = _mesh(mesh)
        known = set(grid.names)

        def left(axes: Axes) -> Axes:
            return tuple(axis for axis in axes if axis in known)

        decisions = self.decisions
        return replace(
            self,
            decisions=replace(
                decisions,
                cluster=cluster,
                mesh=grid,
                factors=tuple(replace(d, axes=left(d.axes)) for d in decisions.factors),
                kept=tuple(k for k in decisions.kept if k.axis in known),
                parameters=tuple(
                    replace(p, axes=left(p.axes))
                    for p in decisions.parameters
                    if p.layout is None or p.layout.used <= known
                ),
                pipeline=decisions.pipeline if decisions.pipeline and decisions.pipeline.axis in known else None,
            ),
        )

    def batch(self, *, global_batch: int, seq: int = 0, microbatches: int) -> Plan:
        """Change samples per step, tokens per sequence and microbatches."""
        return self._with(global_batch=global_batch, seq=seq, microbatches=microbatches)

    def precise(self, precision: str) -> Plan:
        """Change the precision."""
        return self._with(precision=precision)

    def gradients(
        self, *, fusion: str | None = None, bucket_bytes: int = 0, indices: Iterable[int] = (),
        reduction: str | None = None, overlap: bool | None = None, compression: str | None = None,
    ) -> Plan:  # fmt: skip
        """Change how gradients are reduced over the ranks; what is not given stays. Values: `GradientDecision`.

        Parameters
        ----------
        bucket_bytes, indices
            Belong to the fusion given with them.

        Raises
        ------
        PlannerError
            `plan.gradient-choice`, `plan.gradient-bucket`, `plan.gradient-indices`, `plan.gradient-type`.
        """
        changes: dict[str, object] = {"reduction": reduction, "overlap": overlap, "compression": compression}
        positions = tuple(indices)
        if fusion is not None or bucket_bytes or positions:
            changes |= {"fusion": fusion, "bucket_bytes": bucket_bytes, "indices": positions}
        given = {name: value for name, value in changes.items() if value is not None}
        return self._with(gradients=replace(self.decisions.gradients, **given))  # type: ignore[arg-type]

    def keep(self, target: str, axis: str, carriers: Iterable[int]) -> Plan:
        """Keep results of `target` Partial over `axis`; `carriers` are operand positions, one a term of its rule."""
        self.decisions.mesh.size(axis)
        kept = KeepDecision(target=target, axis=axis, carriers=tuple(carriers))
        return self._with(kept=(*self.decisions.kept, kept))

    def unkeep(self, target: str, axis: str) -> Plan:
        """Forget the decisions to keep results of `target` Partial over `axis`: they are combined again."""
        left = tuple(k for k in self.decisions.kept if (k.target, k.axis) != (target, axis))
        return self._with(kept=left)

    def store(
        self, target: str, *, of: str = "storage", axes: Iterable[str] = (), layout: Layout | str | None = None,
        regather: bool = False, deferred: bool = False, place: str | None = None,
    ) -> Plan:  # fmt: skip
        """Say where the parameters that `target` names are stored: further sharded over `axes`, or as `layout`.

        Parameters
        ----------
        of
            `storage`, or `gradient` or `optimizer` to say it of their gradients or of the optimizer's state.
        regather
            Of storage: drop readers' copies after forward and fetch them again in backward.
        deferred
            Of the gradient: keep raw gradients over the microbatches and reduce them once a step.
        place
            Of storage and optimizer: `host` or `device`; None leaves it where an earlier decision put it.

        Raises
        ------
        PlannerError
            `mesh.axis-unknown`, `plan.parameter-state`, `plan.parameter-flag`, `plan.parameter-place`, or what
            reading a layout raises.
        """
        for axis in (names := tuple(axes)):
            self.decisions.mesh.size(axis)
        where = Layout.parse(layout) if isinstance(layout, str) else layout
        decision = ParameterDecision(
            target=target, of=of, axes=names, layout=where, regather=regather, deferred=deferred, place=place
        )
        return self._with(parameters=(*self.decisions.parameters, decision))

    def pipelined(
        self, axis: str, schedule: str = "1f1b", *, per_rank: int = 0, stages: Mapping[str, int] | None = None,
    ) -> Plan:  # fmt: skip
        """Cut the model into stages along a mesh axis.

        Parameters
        ----------
        schedule
            Key of the table `SCHEDULES`, an alias, or `automatic`.
        per_rank
            Stages that each rank holds; 0 for what the schedule needs.
        stages
            Target → stage, such as `{"layers.0-15": 0, "layers.16-31": 1}`; balanced if there are none.

        Raises
        ------
        PlannerError
            `mesh.axis-unknown`, `pipeline.axis-used`, `schedule.unknown`, and what the schedule refuses.
        """
        decided = tuple(StageDecision(target=target, stage=stage) for target, stage in (stages or {}).items())
        pipeline = PipelineDecision(axis=axis, schedule=schedule, per_rank=per_rank, stages=decided)
        return self._with(pipeline=pipeline)

    def unpipelined(self) -> Plan:
        """Put the model in one piece again."""
        return self._with(pipeline=None)

    def recompute(self, target: str, *, again: bool | None = True) -> Plan:
        """Keep of the modules or operators that `target` names only what goes in, and compute the rest in backward.

        Parameters
        ----------
        again
            False takes out what an earlier decision named, and is forgotten itself where there is none; None forgets
            the decision on this target.

        Examples
        --------
        `plan.recompute("layers.*")`, `plan.recompute("layers.*.self_attn", again=False)`
        """
        others = tuple(d for d in self.decisions.recompute if d.target != target)
        added = (RecomputeDecision(target=target, again=bool(again)),) if again or (again is False and others) else ()
        return self._with(recompute=(*others, *added))

    def split_axis(self, axis: str, sizes: tuple[int, ...]) -> Plan:
        """Cut a mesh axis into several, e.g. `tp:8` into `tp0:2,tp1:4`; all decisions follow."""
        mesh, parts = self.decisions.mesh.split(axis, sizes)
        return replace(self, decisions=self.decisions.rename_axis(axis, parts, mesh))

    def preset(self, name: str, /, **axes: str | Iterable[str]) -> Plan:
        """Add the decisions of a preset; its axes join those that the same factors already have.

        Raises
        ------
        PlannerError
            `plan.preset-unknown`, `plan.preset-axes`.
        """
        if name not in PRESETS:
            raise PlannerError(
                "plan.preset-unknown", f"There is no preset {name!r}.", f"Use one of: {', '.join(PRESETS)}."
            )
        preset = PRESETS[name]
        if set(axes) != set(preset.axes):
            raise PlannerError(
                "plan.preset-axes",
                f"Preset {name!r} takes {', '.join(preset.axes) or 'no axes'}; got {', '.join(axes) or 'nothing'}.",
                f"Write {name}({', '.join(f'{axis}=…' for axis in preset.axes)}).",
            )
        plan = self
        for open_axis, factor in preset.align:
            plan = plan._aligned(axes[open_axis], factor)
        given = {key: plan._resolve(value) for key, value in axes.items()}
        for open_axis, factor in preset.align:
            given[f"{open_axis}.major"] = plan._major(given[open_axis], factor)
        return plan._applied(preset, given)

    def _applied(self, preset: Preset, given: Mapping[str, Axes]) -> Plan:
        def filled(axes: Axes) -> Axes:
            return tuple(name for axis in axes for name in given[axis])

        factors = list(self.decisions.factors)
        # With none of the targets in the model, all are kept, and said to name nothing.
        for template in (*self._sampled(preset), *(self._named(preset.factors) or preset.factors)):
            before = next(
                (d.axes for d in reversed(factors) if (d.target, d.factor) == (template.target, template.factor)), ()
            )
            added = tuple(axis for axis in filled(template.axes) if axis not in before)
            factors = list(_replaced(tuple(factors), [replace(template, axes=before + added)]))
        parameters = (replace(p, axes=filled(p.axes)) for p in preset.parameters)
        plan = self._with(factors=tuple(factors), parameters=(*self.decisions.parameters, *parameters))
        for decision in self._named(preset.recompute) or preset.recompute:
            plan = plan.recompute(decision.target, again=decision.again)
        return plan

    def _sampled(self, preset: Preset) -> tuple[FactorDecision, ...]:
        """Return the decisions that shard the samples.

        Raises
        ------
        PlannerError
            `plan.no-samples` when the model leaves none to be sharded.
        """
        if not preset.samples:
            return ()
        places = sample_factors(self.graph)
        if not places:
            raise PlannerError(
                "plan.no-samples", f"{self.graph.name} fixes its batch, so {preset.name} can't share it out.",
                "Load the model with an open batch, or shard something else.",
            )  # fmt: skip
        return tuple(FactorDecision(target=target, factor=factor, axes=preset.samples) for target, factor in places)

    def _named(self, decisions: tuple[Named, ...]) -> tuple[Named, ...]:
        """Return the decisions that name a node of the model."""
        blocks = [self.graph.root, *(repeat.block for repeat in self.graph.root.repeats)]
        names = [node.name for block in blocks for node in block.nodes]
        return tuple(d for d in decisions if any(span(d.target, name) is not None for name in names))

    def _resolve(self, axes: str | Iterable[str]) -> Axes:
        """Return mesh axes for what the caller names; an axis that was split stands for its parts."""
        names: list[str] = []
        for axis in (axes,) if isinstance(axes, str) else axes:
            parts = [n for n in self.decisions.mesh.names if re.fullmatch(rf"{re.escape(axis)}\d+", n)]
            if axis not in self.decisions.mesh.names and not parts:
                self.decisions.mesh.size(axis)
            names += [axis] if axis in self.decisions.mesh.names else parts
        return tuple(names)

    def _aligned(self, axes: str | Iterable[str], factor: str) -> Plan:
        """Split the axis that only partly divides `factor`, so that one part does and the other is a rest."""
        left = self._size(factor)
        for axis in self._resolve(axes):
            size = self.decisions.mesh.size(axis)
            shared = gcd(left, size)
            if shared not in {1, size}:
                return self.split_axis(axis, (shared, size // shared))
            left //= shared
        return self

    def _major(self, axes: Axes, factor: str) -> Axes:
        """Return the leading axes whose sizes divide the factor."""
        left, found = self._size(factor), []
        for axis in axes:
            size = self.decisions.mesh.size(axis)
            if left % size:
                break
            left //= size
            found.append(axis)
        return tuple(found)

    def _size(self, factor: str) -> int:
        """Return the size of a factor that means the same all over the model, such as key/value groups."""
        blocks = [self.graph.root, *(repeat.block for repeat in self.graph.root.repeats)]
        sizes = {
            evaluate(size, frozenset())
            for block in blocks
            for node in block.nodes
            for name, size in node.rule.sizes
            if name == factor
        }
        return gcd(*sizes) if sizes else 0

    def _with(self, **changes: object) -> Plan:
        return replace(self, decisions=replace(self.decisions, **changes))  # type: ignore[arg-type]


def _check_compression(decisions: Decisions) -> None:
    """Hold what gradients are passed as to what they are."""
    wide, compression = precision_named(decisions.precision).gradient, decisions.gradients.compression
    if compression in {"bf16", "fp16"} and DTYPE_BYTES[wide] <= DTYPE_BYTES["bfloat16"]:
        raise PlannerError(
            "plan.gradient-type",
            f"Gradients of precision {decisions.precision} are {wide}: {compression} would make them no smaller.",
            "Use int8 or one_bit, or a precision with gradients of 4 bytes.", subject="gradients",
        )  # fmt: skip


def _mesh(mesh: Mapping[str, int] | DeviceMesh | str) -> DeviceMesh:
    if isinstance(mesh, str):
        return DeviceMesh.parse(mesh)
    return mesh if isinstance(mesh, DeviceMesh) else DeviceMesh.of(mesh)


def _replaced(old: tuple[FactorDecision, ...], added: list[FactorDecision]) -> tuple[FactorDecision, ...]:
    """Return the decisions with each new one in place of an old one on the same target and factor."""
    keys = {(d.target, d.factor) for d in added}
    return (*(d for d in old if (d.target, d.factor) not in keys), *added)


def _axes_by_target(decisions: Decisions) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield the target of each decision on sharding, and the axes that it uses."""
    yield from ((d.target, frozenset(d.axes)) for d in decisions.factors)
    yield from ((d.target, frozenset({d.axis})) for d in decisions.kept)
    for d in decisions.parameters:
        yield d.target, frozenset(d.axes) | (d.layout.used if d.layout else frozenset())
