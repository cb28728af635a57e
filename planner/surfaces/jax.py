"""JAX's `PartitionSpec`: per tensor dim a mesh axis, a tuple of axes (major first), or None.

`P('dp', ('sp', 'tp'), None)`. Dims behind the last entry are whole. `P.UNCONSTRAINED` leaves a dim to the compiler;
`unreduced={'tp'}` says that a sum over tp is due, `reduced={'tp'}` that the gradient's is.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from ..errors import LayoutError
from .literal import Term, parse

SYNTAX = "surface.spec-syntax"
HINT = "Write e.g. P('dp', ('sp', 'tp'), None)."


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSpec:
    """A partition spec as written.

    Parameters
    ----------
    dims
        Axes of every dim; None where the dim is left to the compiler.
    unreduced, reduced
        Axes of the keywords of these names, sorted.
    """

    dims: tuple[Axes | None, ...]
    unreduced: Axes = ()
    reduced: Axes = ()

    def __str__(self) -> str:
        parts = [_entry(axes) for axes in self.dims]
        for name, axes in (("unreduced", self.unreduced), ("reduced", self.reduced)):
            if axes:
                parts.append(f"{name}={{{', '.join(map(repr, axes))}}}")
        return f"P({', '.join(parts)})"


def of_layout(layout: Layout, mesh: DeviceMesh, *, unreduced: bool = False) -> PartitionSpec:
    """Return the partition spec of a layout.

    Parameters
    ----------
    unreduced
        Whether partial sums may be written by the keyword `unreduced`, which JAX takes in explicit sharding mode only.

    Raises
    ------
    LayoutError
        `surface.partial-inexpressible`.
    """
    mesh.size_of(layout.used)
    if layout.partial and not (unreduced and layout.reduce == "sum"):
        raise LayoutError(
            "surface.partial-inexpressible",
            f"{layout} is partial over {'·'.join(layout.partial)}; a PartitionSpec says only how dims are sharded.",
            "Reduce it first" + (", or allow the keyword unreduced." if layout.reduce == "sum" else "."),
        )
    return PartitionSpec(dims=layout.dims, unreduced=layout.partial)


def to_layout(spec: PartitionSpec, mesh: DeviceMesh, rank: int) -> Layout:
    """Return the layout of a tensor with `rank` dims that has this partition spec.

    Raises
    ------
    LayoutError
        `surface.spec-rank`, `surface.unconstrained`, `layout.axis-reused`, `mesh.axis-unknown`.
    """
    if len(spec.dims) > rank:
        raise LayoutError(
            "surface.spec-rank", f"{spec} has {len(spec.dims)} entries, the tensor has {rank} dims.",
            "Give at most one entry a dim.",
        )  # fmt: skip
    dims = []
    for dim, axes in enumerate(spec.dims):
        if axes is None:
            raise LayoutError(
                "surface.unconstrained",
                f"Dim {dim} of {spec} is left to the compiler, so it is not known where its parts lie.",
                "Name its axes, or None to keep it whole.",
                subject="UNCONSTRAINED",
            )
        dims.append(axes)
    mesh.size_of((*(axis for axes in dims for axis in axes), *spec.unreduced, *spec.reduced))
    return Layout((*dims, *((),) * (rank - len(dims))), spec.unreduced)


def read(text: str) -> PartitionSpec:
    """Read a partition spec.

    Raises
    ------
    LayoutError
        `surface.spec-syntax`, with its place.
    """
    term = parse(text, "a partition spec", SYNTAX, HINT)
    if term.called not in {"P", "PartitionSpec"} or not set(term.keywords) <= {"unreduced", "reduced"}:
        raise term.refusal(SYNTAX, f"{str(term)[:60]!r} is not a partition spec.", HINT)
    return PartitionSpec(
        dims=tuple(_dim(argument) for argument in term.arguments),
        **{name: tuple(sorted(map(_axis, value.items))) for name, value in term.keywords.items()},
    )


def _dim(term: Term) -> Axes | None:
    if term.kind == "name" and term.word.rpartition(".")[2] == "UNCONSTRAINED":
        return None
    if term.kind == "name" and term.word == "None":
        return ()
    return tuple(map(_axis, term.items)) if term.kind == "sequence" else (_axis(term),)


def _axis(term: Term) -> str:
    if term.kind != "text" or not term.word.isidentifier():
        raise term.refusal(
            SYNTAX, f"{str(term)[:60]!r} is not an entry of a partition spec.",
            "Write an axis name in quotes, a tuple of them, or None.",
        )  # fmt: skip
    return term.word


def _entry(axes: Axes | None) -> str:
    if axes is None:
        return "P.UNCONSTRAINED"
    if len(axes) == 1:
        return repr(axes[0])
    return f"({', '.join(map(repr, axes))})" if axes else "None"
