"""What a plan stores: decisions, never derivations.

A *target* names operators or parameters by module path: dot-separated tokens matched anywhere in the path, so
`layers.*.mlp.gate_proj` finds `model.layers.*.mlp.gate_proj`. A token may hold `*`, alternatives `q_proj|k_proj`, and,
where the layer index stands, a number or a range `0-3`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterDecision:
    """Where the parameters that `target` names are stored.

    Parameters
    ----------
    axes
        Axes over which storage, gradient and optimizer state are sharded further than the readers ask for, on the first
        dim that divides.
    layout
        An explicit storage layout instead; `axes` is then empty.
    regather
        Drop the redistributed copy after forward and fetch it again in backward.
    """

    target: str
    axes: Axes = ()
    layout: Layout | None = None
    regather: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Element types: of parameters and computation, of gradients, and of the optimizer's master copy and moments."""

    name: str
    compute: str
    gradient: str
    master: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """All decisions of a plan. Later decisions on the same thing win.

    Parameters
    ----------
    cluster
        Name of the cluster, e.g. `8x8-h100-sxm`: nodes × devices per node - device.
    global_batch, seq, microbatches
        Sequences per optimizer step, tokens per sequence, and microbatches that a step is cut into.
    """

    cluster: str
    mesh: DeviceMesh
    global_batch: int
    seq: int
    microbatches: int = 1
    precision: str = "bf16"
    factors: tuple[FactorDecision, ...] = ()
    kept: tuple[KeepDecision, ...] = ()
    parameters: tuple[ParameterDecision, ...] = ()

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets of all decisions."""
        return (
            *(d.target for d in self.factors),
            *(d.target for d in self.kept),
            *(d.target for d in self.parameters),
        )

    def rename_axis(self, replaced: str, parts: Axes, mesh: DeviceMesh) -> Decisions:
        """Return the decisions on a finer mesh, with `replaced` written as `parts` everywhere."""

        def axes(old: Axes) -> Axes:
            return tuple(name for axis in old for name in (parts if axis == replaced else (axis,)))

        kept = [replace(k, axis=axis) for k in self.kept for axis in axes((k.axis,))]
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
    factors, parameters
        Decision templates; their axes are names from `axes`.
    align
        Pairs (open axis, factor): if the axis does not divide the factor's size, it is first split in a part that does
        and a rest; templates that name `axis.major` get only the part that does.
    """

    name: str
    summary: str
    axes: tuple[str, ...]
    factors: tuple[FactorDecision, ...] = ()
    parameters: tuple[ParameterDecision, ...] = ()
    align: tuple[tuple[str, str], ...] = ()
