"""The elements that ranks hold, listed one by one, counted row-major over the whole tensor."""

from math import prod

import numpy as np

from planner.core.crossing import Holding


def held(one: Holding, rank: int) -> set[int]:
    """Return the elements that a rank holds."""
    index = np.arange(prod(one.shape)).reshape(one.shape)
    return set(index[tuple(slice(*span) for span in one.part(rank))].reshape(-1).tolist())


def lacking(source: Holding, target: Holding) -> list[set[int]]:
    """Return, for every rank, the elements that it needs and does not hold."""
    return [held(target, rank) - held(source, rank) for rank in range(source.mesh.device_count)]


def bound(source: Holding, target: Holding) -> int:
    """Return the elements that the neediest rank must receive."""
    return max(map(len, lacking(source, target)))
