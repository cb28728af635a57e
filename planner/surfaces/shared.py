"""Whether several readers of one weight put the same slices on the same ranks, as MindSpore demands."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.slices import Ranges, ranges
from ..errors import LayoutError
from .device_layout import DeviceLayout


def check_shared(weight: str, uses: Sequence[tuple[str, DeviceLayout]]) -> None:
    """Refuse readers of a weight that do not hold the same part of it on every rank.

    Shardwright itself has no such rule: each reader gets the weight through an edge of its own.

    Parameters
    ----------
    uses
        Name of each reader, and the layout in which it reads the weight.

    Raises
    ------
    LayoutError
        `mindspore.shared-weight`, which names a rank and the two parts.
    """
    (first, layout), *others = uses
    for other, wanted in others:
        for rank, (one, two) in enumerate(zip(_slices(layout), _slices(wanted), strict=True)):
            if one != two:
                raise LayoutError(
                    "mindspore.shared-weight",
                    f"{weight}: rank {rank} holds {_shown(one)} of it for {first} and {_shown(two)} for {other}.",
                    "Choose strategies, or sides of the repetition, that put the same part on every rank.",
                    subject=weight,
                )


def _slices(layout: DeviceLayout) -> list[Ranges]:
    mesh, named = layout.named()
    return [ranges(named, layout.shape, mesh, rank) for rank in range(mesh.device_count)]


def _shown(part: Ranges) -> str:
    return f"[{', '.join(f'{start}:{stop}' for start, stop in part)}]"
