"""DTensor placements: per mesh axis `Shard(dim)`, `Replicate()` or `Partial(op)`.

Where several axes shard one dim, placements alone mean mesh order, outer before inner. Another order is written as
torch prints it, `Shard(0)[1], Shard(0)[0]` (the number is the position in the order), or with torch's `_StridedShard`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..core.layout import REDUCE_OPS, Layout
from ..core.mesh import DeviceMesh
from ..errors import LayoutError
from .literal import Term, parse

SYNTAX = "surface.placement-syntax"
HINT = "Write one placement a mesh axis, e.g. Shard(0), Replicate(), Partial(sum)."
# torch's name → ours where they differ.
_REDUCE = {"avg": "mean"}


@dataclass(frozen=True, slots=True)
class Placement:
    """What one mesh axis does to a tensor: `Shard(dim)`, `Replicate()` or `Partial(reduce)`.

    Parameters
    ----------
    dim
        The dim that it shards; None if it shards none.
    reduce
        The reduction that is due over it; empty if there is none.
    order
        Position among the axes on the same dim, major first; None for mesh order.
    factor
        torch's `split_factor`: the parts into which inner axes cut the dim before this one; 1 for a plain `Shard`.
    """

    dim: int | None = None
    reduce: str = ""
    order: int | None = None
    factor: int = 1

    def __str__(self) -> str:
        if self.dim is None:
            name = next((torch for torch, ours in _REDUCE.items() if ours == self.reduce), self.reduce)
            return f"Partial({name})" if self.reduce else "Replicate()"
        if self.factor > 1:
            return f"_StridedShard(dim={self.dim}, sf={self.factor})"
        return f"Shard({self.dim})" + ("" if self.order is None else f"[{self.order}]")


Placements = tuple[Placement, ...]


def text_of(placements: Placements) -> str:
    """Return placements as text that `read` reads."""
    return ", ".join(map(str, placements))


def of_layout(layout: Layout, mesh: DeviceMesh, *, ordered: bool = True) -> Placements:
    """Return the placements of a layout, one a mesh axis.

    Parameters
    ----------
    ordered
        Whether an order other than the mesh's may be written, as torch's `ShardOrder`.

    Raises
    ------
    LayoutError
        `surface.placement-order` where the order can't be written.
    """
    order: dict[str, tuple[int, int | None]] = {}
    for dim, axes in enumerate(layout.dims):
        mesh.size_of(axes)
        default = axes == tuple(axis for axis in mesh.names if axis in axes)
        if not default and not ordered:
            raise LayoutError(
                "surface.placement-order",
                f"Dim {dim} of {layout} is cut by {'·'.join(axes)} in this order; plain placements always cut in the "
                f"order of the mesh {mesh}.",
                "Give a shard order too, or use axes in mesh order.",
            )
        order |= {axis: (dim, None if default else position) for position, axis in enumerate(axes)}
    found = []
    for axis in mesh.names:
        if axis in order:
            dim, position = order[axis]
            found.append(Placement(dim=dim, order=position))
        else:
            found.append(Placement(reduce=layout.reduce if axis in layout.partial else ""))
    return tuple(found)


def strided(layout: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Placements:
    """Return placements that say another order than the mesh's by `_StridedShard`, as torch itself does.

    Raises
    ------
    LayoutError
        `surface.placement-order` where such a dim does not divide evenly: `_StridedShard` may mean other parts then.
    """
    found = list(of_layout(layout, mesh))
    for dim, axes in enumerate(layout.dims):
        if shape[dim] % mesh.size_of(axes) and any(found[mesh.names.index(axis)].order is not None for axis in axes):
            raise LayoutError(
                "surface.placement-order",
                f"Dim {dim} of {layout} has size {shape[dim]}, which {'·'.join(axes)} cuts into unequal parts in an "
                "order other than the mesh's; torch's _StridedShard may mean other parts then.",
                "Use axes in mesh order, or a size that divides.",
            )
        for position, axis in enumerate(axes):
            inner = (a for a in axes[:position] if mesh.names.index(a) > mesh.names.index(axis))
            found[mesh.names.index(axis)] = Placement(dim=dim, factor=mesh.size_of(inner))
    return tuple(found)


def to_layout(placements: Placements, mesh: DeviceMesh, rank: int) -> Layout:
    """Return the layout of a tensor with `rank` dims that has these placements.

    Raises
    ------
    LayoutError
        `surface.placement-count`, `surface.placement-dim`, `surface.placement-order`, `surface.partial-mixed`,
        `layout.reduce-op`.
    """
    if len(placements) != len(mesh.axes):
        raise LayoutError(
            "surface.placement-count",
            f"There are {len(placements)} placements for the {len(mesh.axes)} axes of the mesh {mesh}.",
            f"Give one a mesh axis, in the order {', '.join(mesh.names)}.",
        )
    on: dict[int, list[tuple[str, Placement]]] = {}
    partial: dict[str, str] = {}
    for axis, placement in zip(mesh.names, placements, strict=True):
        if placement.dim is not None:
            dim = placement.dim + rank if placement.dim < 0 else placement.dim
            if not 0 <= dim < rank:
                raise LayoutError(
                    "surface.placement-dim",
                    f"Shard({placement.dim}) for axis {axis!r}: the tensor has {rank} dims.",
                    f"Name a dim from 0 to {rank - 1}." if rank else "A scalar has no dim to shard.",
                )
            on.setdefault(dim, []).append((axis, placement))
        elif placement.reduce:
            partial[axis] = _REDUCE.get(placement.reduce, placement.reduce)
    if len(set(partial.values())) > 1:
        said = ", ".join(f"{reduce} over {axis}" for axis, reduce in partial.items())
        raise LayoutError(
            "surface.partial-mixed", f"The placements are Partial by several reductions: {said}.",
            "Reduce all but one of them first.",
        )  # fmt: skip
    dims = tuple(_ordered(on.get(dim, []), mesh, dim) for dim in range(rank))
    return Layout(dims, tuple(partial), next(iter(partial.values()), "sum"))


def _ordered(placed: list[tuple[str, Placement]], mesh: DeviceMesh, dim: int) -> tuple[str, ...]:
    """Return the axes on a dim, major first."""
    if any(placement.order is not None for _, placement in placed):
        if sorted(-1 if p.order is None else p.order for _, p in placed) != list(range(len(placed))):
            given = ", ".join(f"{axis} {p}" for axis, p in placed)
            raise LayoutError(
                "surface.placement-order",
                f"Dim {dim} is sharded by {given}; the positions have to be 0 to {len(placed) - 1}, each once.",
                "Give every Shard of the dim its position, as in Shard(0)[1], Shard(0)[0].",
            )
        return tuple(axis for axis, _ in sorted(placed, key=lambda item: item[1].order or 0))
    axes: list[str] = []
    # From inner to outer: an axis stands behind those inner ones that cut before it.
    for axis, placement in reversed(placed):
        sizes = [mesh.size(other) for other in axes]
        places = [i for i in range(len(axes) + 1) if prod(sizes[:i]) == placement.factor]
        if not places:
            raise LayoutError(
                "surface.placement-order",
                f"{placement} for axis {axis!r}: no inner axes on dim {dim} of the mesh {mesh} cut it into "
                f"{placement.factor} parts.",
                "Use a split factor that is a product of inner axes' sizes.",
            )
        axes.insert(places[0], axis)
    return tuple(axes)


def read(text: str) -> Placements:
    """Read placements as Python writes them or torch prints them.

    Raises
    ------
    LayoutError
        `surface.placement-syntax`, with its place.
    """
    term = parse(text, "a list of placements", SYNTAX, HINT)
    return tuple(_placement(item) for item in (term.items if term.kind == "sequence" else (term,)))


def _placement(term: Term) -> Placement:
    call, order = term, None
    if term.kind == "index" and len(term.items) == 2:
        call, order = term.items[0], term.items[1].number
        if order is None or order < 0 or call.called != "Shard":
            raise term.refusal(SYNTAX, f"{term} is not a placement: a position is a number behind a Shard.", HINT)
    given = dict(zip(("dim", "sf"), call.arguments, strict=False)) | call.keywords
    given |= {"sf": given.pop("split_factor")} if "split_factor" in given else {}
    match call.called:
        case "Replicate" if not given:
            return Placement()
        case "Shard" if set(given) == {"dim"}:
            return Placement(dim=_number(given["dim"]), order=order)
        case "_StridedShard" if set(given) == {"dim", "sf"} and (given["sf"].number or 0) > 0:
            return Placement(dim=_number(given["dim"]), factor=_number(given["sf"]))
        case "Partial" if len(given) < 2:
            return Placement(reduce=_reduce(next(iter(given.values()))) if given else "sum")
    raise term.refusal(SYNTAX, f"{str(term)[:60]!r} is not a placement.", HINT)


def _number(term: Term) -> int:
    if term.number is None:
        raise term.refusal(SYNTAX, f"{str(term)[:60]!r} is not a number.", HINT)
    return term.number


def _reduce(term: Term) -> str:
    name = _REDUCE.get(term.word, term.word) if term.kind in {"text", "name"} else str(term)
    if name not in REDUCE_OPS:
        raise term.refusal(
            "layout.reduce-op", f"{name!r} is not a reduction.", f"Use one of {', '.join(REDUCE_OPS)}.", subject=name
        )
    return name
