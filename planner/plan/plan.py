"""The plan that a user holds: each method gives a new one with another decision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..core.cluster import ClusterSpec
from ..core.graph import ModelGraph
from ..core.layout import Layout
from ..core.mesh import DeviceMesh
from ..core.plan import Decisions, KeepDecision, ParameterDecision, PipelineDecision, StageDecision
from ..hardware import cluster as cluster_named
from ..schedules import part_count
from ..surfaces import Counts, Side
from .check import check
from .edits import counted, on_mesh, recomputed, sharded, split, stored
from .preset import with_preset

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A model graph with the decisions on how to train it; make one with `Plan.new`."""

    graph: ModelGraph
    decisions: Decisions

    def __post_init__(self) -> None:
        check(self.graph, self.decisions)

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
        if isinstance(factors, Mapping):
            return self._after(sharded(self.decisions, target, factors))
        return self._after(counted(self.graph, self.decisions, target, factors, side))

    def release(self, target: str, factor: str) -> Plan:
        """Forget the decision on a factor: it follows the operands again."""
        left = tuple(d for d in self.decisions.factors if (d.target, d.factor) != (target, factor))
        return self._with(factors=left)

    def clear(self) -> Plan:
        """Forget all decisions on sharding, places and recompute; model, cluster, mesh and batch stay."""
        return self._with(factors=(), kept=(), parameters=(), recompute=())

    def on(self, *, cluster: str, mesh: Mapping[str, int] | DeviceMesh | str) -> Plan:
        """Move the plan to another cluster and mesh; axes that the new mesh lacks are taken from the decisions."""
        return self._after(on_mesh(self.decisions, cluster, _mesh(mesh)))

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

        With nothing but a target, what earlier decisions say of its layout is taken back.

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
        return self._after(stored(self.decisions, decision))

    def unstore(self, target: str, *, of: str = "storage") -> Plan:
        """Forget the decisions on where the parameters that `target` names are stored, or what else `of` says."""
        left = tuple(d for d in self.decisions.parameters if (d.target, d.of) != (target, of))
        return self._with(parameters=left)

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
            False takes out what an earlier decision named, and is forgotten itself where none did; None forgets the
            decision on this target.

        Examples
        --------
        `plan.recompute("layers.*")`, `plan.recompute("layers.*.self_attn", again=False)`
        """
        return self._after(recomputed(self.graph, self.decisions, target, again))

    def split_axis(self, axis: str, sizes: tuple[int, ...]) -> Plan:
        """Cut a mesh axis into several, e.g. `tp:8` into `tp0:2,tp1:4`; all decisions follow."""
        return self._after(split(self.decisions, axis, sizes))

    def preset(self, name: str, /, **axes: str | Iterable[str]) -> Plan:
        """Add the decisions of a preset; its axes join those that the same factors already have.

        Raises
        ------
        PlannerError
            `plan.preset-unknown`, `plan.preset-axes`, `plan.no-samples`.
        """
        return self._after(with_preset(self.graph, self.decisions, name, axes))

    def _with(self, **changes: object) -> Plan:
        return self._after(replace(self.decisions, **changes))  # type: ignore[arg-type]

    def _after(self, decisions: Decisions) -> Plan:
        return replace(self, decisions=decisions)


def _mesh(mesh: Mapping[str, int] | DeviceMesh | str) -> DeviceMesh:
    if isinstance(mesh, str):
        return DeviceMesh.parse(mesh)
    return mesh if isinstance(mesh, DeviceMesh) else DeviceMesh.of(mesh)
