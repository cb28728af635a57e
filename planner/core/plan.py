"""What a plan stores: decisions, never derivations.

A *target* names operators or parameters by module path: dot-separated tokens matched anywhere in the path, so
`layers.*.mlp.gate_proj` finds `model.layers.*.mlp.gate_proj`. A token may hold `*`, alternatives `q_proj|k_proj`, and,
where the layer index stands, a number, a range `0-3`, or every second of a range `0-22+2`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import PlannerError
from .gradient_decision import AS_THEY_COME, GradientDecision
from .layout import Layout
from .mesh import Axes, DeviceMesh


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorDecision:
    """Shard one factor of the operators that `target` names over `axes`; no axes means: keep it whole."""

    target: str
    factor: str
    axes: Axes


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepDecision:
    """Keep the results of `target` Partial over `axis`; `carriers` are the operand positions, one a term."""

    target: str
    axis: str
    carriers: tuple[int, ...]


PLACES = ("device", "host")
"""Where a tensor may lie: in the memory of the device, or in that of the machine around it."""
STATES = ("storage", "gradient", "optimizer")
"""What a parameter has a layout of; each follows the one before it unless a decision says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterDecision:
    """Where the parameters that `target` names are stored, or their gradients or their optimizer's state.

    Parameters
    ----------
    of
        One of `STATES`. The optimizer's state follows the gradient, and the gradient the storage.
    axes
        Axes over which it is sharded further than what it follows, on the first dim that divides; storage follows the
        first reader.
    layout
        An explicit layout instead; `axes` is then empty.
    regather
        Of storage: drop the redistributed copy after forward and fetch it again in backward.
    deferred
        Of the gradient: keep the raw gradients over the microbatches and redistribute their sum once a step.
    place
        Of storage and optimizer: one of `PLACES`; None leaves it where it is, at first on the device. What is stored on
        the host is brought to the device before it is used, and let go; the optimizer works where its state lies.

    A decision with a place and nothing else leaves layouts as they are. One with nothing at all takes back what earlier
    ones say of layouts, `regather` and `deferred`.

    Raises
    ------
    PlannerError
        `plan.parameter-state`, `plan.parameter-flag`, `plan.parameter-place`.
    """

    target: str
    of: str = "storage"
    axes: Axes = ()
    layout: Layout | None = None
    regather: bool = False
    deferred: bool = False
    place: str | None = None

    def __post_init__(self) -> None:
        if self.place is not None and (self.place not in PLACES or self.of == "gradient"):
            raise PlannerError(
                "plan.parameter-place", f"The {self.of} of {self.target!r} can't lie on {self.place!r}.",
                "Storage and optimizer state lie on the device or the host; gradients are made on the device.",
                subject=self.target,
            )  # fmt: skip
        if self.of not in STATES:
            raise PlannerError(
                "plan.parameter-state", f"{self.of!r} is nothing that a parameter has a layout of.",
                f"Use one of {', '.join(STATES)}.", subject=self.target,
            )  # fmt: skip
        for flag, given, state in (("regather", self.regather, "storage"), ("deferred", self.deferred, "gradient")):
            if given and self.of != state:
                raise PlannerError(
                    "plan.parameter-flag", f"{flag} belongs to the {state} of {self.target!r}, not to the {self.of}.",
                    f"Say it in a decision on the {state}.", subject=self.target,
                )  # fmt: skip

    @property
    def lays(self) -> bool:
        """Whether it says how the tensor is laid out or handled; if not, it has a place or takes others back."""
        return bool(self.axes or self.layout or self.regather or self.deferred)

    @property
    def resets(self) -> bool:
        """Whether it takes back what earlier ones say of layouts and how they are handled."""
        return not self.lays and self.place is None

    def replaces(self, earlier: ParameterDecision) -> bool:
        """Return whether nothing is left of an earlier decision after this one."""
        if self.of != earlier.of or self.target not in {"*", earlier.target}:
            return False
        if self.resets:
            return earlier.place is None
        return not self.lays and not earlier.lays and not earlier.resets


@dataclass(frozen=True, slots=True, kw_only=True)
class StageDecision:
    """Run the layers or operators that `target` names on a stage of the pipeline; stages count from 0."""

    target: str
    stage: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineDecision:
    """How the model is cut into stages, and in what order they run.

    Parameters
    ----------
    axis
        Mesh axis along which the stages lie; no tensor is sharded over it.
    schedule
        Key of the table `SCHEDULES`, an alias of one, or `automatic`.
    per_rank
        Stages that each rank holds; 0 for what the schedule needs.
    stages
        What runs where; what is named by none follows what it reads. Without any, the stages are balanced.
    """

    axis: str
    schedule: str = "1f1b"
    per_rank: int = 0
    stages: tuple[StageDecision, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputeDecision:
    """Keep of what `target` names only what goes in, and compute it again in backward.

    Parameters
    ----------
    target
        Modules, such as `layers.*`, or operators. Operators of one target that follow each other in a module are one
        piece.
    again
        False takes what an earlier decision named out again.
    """

    target: str
    again: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Element types: of parameters and computation, of gradients, and of the optimizer's master copy and moments.

    Parameters
    ----------
    sums
        What partial results of several ranks are passed and added in, and their gradients; gradients of parameters are
        added in their own type.
    """

    name: str
    compute: str
    gradient: str
    master: str
    sums: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """All decisions of a plan. Later decisions on the same thing win.

    Parameters
    ----------
    cluster
        Name of the cluster, e.g. `8x8-h100-sxm`: nodes × devices per node - device.
    global_batch, seq, microbatches
        Samples per optimizer step, tokens per sequence, and microbatches that a step is cut into. A sample is a
        sequence where the model has any; where it has none, `seq` is 0.
    pipeline
        None for a model in one piece.
    """

    cluster: str
    mesh: DeviceMesh
    global_batch: int
    seq: int = 0
    microbatches: int = 1
    precision: str = "bf16"
    factors: tuple[FactorDecision, ...] = ()
    kept: tuple[KeepDecision, ...] = ()
    parameters: tuple[ParameterDecision, ...] = ()
    gradients: GradientDecision = AS_THEY_COME
    pipeline: PipelineDecision | None = None
    recompute: tuple[RecomputeDecision, ...] = ()

    @property
    def symbols(self) -> frozenset[tuple[str, int]]:
        """What the symbols of sizes stand for: `B`, the samples of a microbatch, and `S` where there are sequences."""
        sizes = {"B": self.global_batch // self.microbatches} | ({"S": self.seq} if self.seq else {})
        return frozenset(sizes.items())

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets of all decisions."""
        return (
            *(d.target for d in self.factors),
            *(d.target for d in self.kept),
            *(d.target for d in self.parameters),
            *(d.target for d in (self.pipeline.stages if self.pipeline else ())),
            *(d.target for d in self.recompute),
        )

    def rename_axis(self, replaced: str, parts: Axes, mesh: DeviceMesh) -> Decisions:
        """Return the decisions on a finer mesh, with `replaced` written as `parts` everywhere."""

        def axes(old: Axes) -> Axes:
            return tuple(name for axis in old for name in (parts if axis == replaced else (axis,)))

        kept = [replace(k, axis=axis) for k in self.kept for axis in axes((k.axis,))]
        if self.pipeline and self.pipeline.axis == replaced:
            raise PlannerError(
                "pipeline.axis-split", f"The stages lie along {replaced}, which can't be split.",
                "Give each rank more stages instead, or put the model in one piece first.", subject=replaced,
            )  # fmt: skip
        return replace(
            self,
            mesh=mesh,
            factors=tuple(replace(f, axes=axes(f.axes)) for f in self.factors),
            kept=tuple(kept),
            parameters=tuple(
                replace(p, axes=axes(p.axes), layout=p.layout and p.layout.rename(replaced, parts))
                for p in self.parameters
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named set of decisions with open axes.

    Parameters
    ----------
    axes
        Names of the axes that a user gives, e.g. `("axis",)`.
    samples
        Open axes over which the samples of a step are sharded, wherever inputs are read.
    factors, parameters
        Decision templates; their axes are names from `axes`.
    recompute
        Decisions on what is computed again.
    align
        Pairs (open axis, factor): if the axis does not divide the factor's size, it is first split in a part that does
        and a rest; templates that name `axis.major` get only the part that does.
    """

    name: str
    summary: str
    axes: tuple[str, ...]
    samples: Axes = ()
    factors: tuple[FactorDecision, ...] = ()
    parameters: tuple[ParameterDecision, ...] = ()
    recompute: tuple[RecomputeDecision, ...] = ()
    align: tuple[tuple[str, str], ...] = ()
