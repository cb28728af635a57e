"""What stays put in a redistribution, and the smaller problem that is left.

- Axes that source and target hold alike on the major side of a dim stay there: they are taken out of the problem, and
  the dim is as long as their largest part.
- Of the dims that hold nothing else before and after, one is kept, for axes to rest on: where all devices together
  divide them the others are like it, since no price depends on the dim. Where they are uneven, each is kept.
- Axes that neither layout uses are kept while there are few axes (`FEW`): cutting what all their ranks hold alike lets
  each of them move a part over a slow link, and makes a reduction smaller. The largest come first.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..core.chunk import largest
from ..core.layout import Layout
from ..core.mesh import Axes, DeviceMesh
from .moves import Rules, State

FEW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A redistribution without what stays put.

    Parameters
    ----------
    shape
        Global shape of the tensor.
    prefixes
        Axes on the major side of each dim that stay there.
    kept
        The dims of the smaller problem.
    rooms
        Length of these dims after the prefixes.
    rest
        Elements of what the other dims leave of the tensor on a rank.
    even
        Whether all axes of the problem together divide every room, and the prefixes their dims.
    source, target
        Layouts of the smaller problem.
    rules
        The search graph.
    """

    shape: tuple[int, ...]
    prefixes: tuple[Axes, ...]
    kept: tuple[int, ...]
    rooms: tuple[int, ...]
    rest: int
    even: bool
    source: State
    target: State
    rules: Rules

    def layout(self, state: State) -> Layout:
        """Return the layout of the whole tensor in a state of the smaller problem."""
        dims = list(self.prefixes)
        for dim, axes in zip(self.kept, state[0], strict=True):
            dims[dim] += axes
        return Layout(tuple(dims), state[1], state[2])

    def dim(self, dim: int) -> int:
        """Return the tensor's dim for one of the smaller problem, or -1."""
        return self.kept[dim] if dim >= 0 else -1


def frame(source: Layout, target: Layout, shape: tuple[int, ...], mesh: DeviceMesh) -> Frame:
    """Return what is left of a redistribution between two layouts without axes of size 1."""
    common = [_common(a, b) for a, b in zip(source.dims, target.dims, strict=True)]
    prefixes = tuple(axes[:n] for axes, n in zip(source.dims, common, strict=True))
    fixed = {a for axes in prefixes for a in axes}
    used = (source.used | target.used) - fixed
    idle = sorted((-n, a) for a, n in mesh.axes if n > 1 and a not in used and a not in fixed)
    resting = {a for _, a in idle[: max(0, FEW - len(used))]}
    sizes = tuple((a, n) for a, n in mesh.axes if a in used or a in resting)
    count = prod(n for _, n in sizes)
    lengths = [largest(n, axes, mesh) for n, axes in zip(shape, prefixes, strict=True)]
    divided = all(n % mesh.size_of(axes) == 0 for n, axes in zip(shape, prefixes, strict=True))
    kept = _kept(source, target, common, lengths, count)
    rooms = tuple(lengths[dim] for dim in kept)
    return Frame(
        shape=shape, prefixes=prefixes, kept=kept, rooms=rooms,
        rest=prod(n for dim, n in enumerate(lengths) if dim not in kept),
        even=divided and all(room % count == 0 for room in rooms),
        source=_inner(source, common, kept), target=_inner(target, common, kept),
        rules=Rules(
            sizes=sizes, width=len(kept), pads=True,
            zeros=tuple(a for a in target.partial if a not in source.partial),
        ),
    )  # fmt: skip


def _kept(source: Layout, target: Layout, common: list[int], lengths: list[int], count: int) -> tuple[int, ...]:
    moving = [max(len(a), len(b)) > n for a, b, n in zip(source.dims, target.dims, common, strict=True)]
    spare = [dim for dim, moves in enumerate(moving) if not moves and lengths[dim] > 1]
    even = [dim for dim in spare if lengths[dim] % count == 0]
    resting = even[:1] or spare
    return tuple(dim for dim, moves in enumerate(moving) if moves or dim in resting)


def _inner(layout: Layout, common: list[int], kept: tuple[int, ...]) -> State:
    return tuple(layout.dims[dim][common[dim] :] for dim in kept), layout.partial, layout.reduce


def _common(left: Axes, right: Axes) -> int:
    """Return how many axes two dims have in common on their major side."""
    pairs = zip(left, right, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))
