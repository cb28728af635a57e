"""How fast a pipeline can be at best, whatever the order.

For every rank: its first forward can't start before the chain has reached its first stage (`head`), then it has all its
work to do. After its last input gradient, the chain has to run back to the first stage (`tail`); only weight gradients
can come meanwhile. And no microbatch is faster than its own way down and up the chain.
"""

from __future__ import annotations

from itertools import pairwise

from ..core.schedule import Chain, Schedule
from ..core.timeline import StageTimes


def lower_bound(schedule: Schedule, times: tuple[StageTimes, ...]) -> float:
    """Return seconds that no order of the same stages and microbatches can go below.

    The backward may be split in two halves or not.
    """
    heads: dict[int, float] = {}
    tails: dict[int, float] = {}
    works, firm = [0.0] * schedule.ranks, [0.0] * schedule.ranks
    longest = 0.0
    for chain in schedule.chains:
        down = _down(schedule, chain, times)
        up = _up(schedule, chain, times)
        last = chain.stages[-1]
        way = down[last] + times[last].forward + _back(times[last]) + up[last]
        longest = max(longest, way)
        for stage in chain.stages:
            rank = schedule.placement[stage]
            heads[rank] = min(heads.get(rank, down[stage]), down[stage])
            tails[rank] = min(tails.get(rank, up[stage]), up[stage])
            count, cost = len(chain.microbatches), times[stage]
            firm[rank] += count * (cost.forward + _back(cost))
            works[rank] += count * (cost.work + cost.recompute)
    return max(
        longest,
        max(heads[rank] + works[rank] for rank in heads),
        max(heads[rank] + firm[rank] + tails[rank] for rank in heads),
    )


def _back(times: StageTimes) -> float:
    """Return the seconds of the backward that later stages wait for."""
    return times.recompute + times.backward_input


def _down(schedule: Schedule, chain: Chain, times: tuple[StageTimes, ...]) -> dict[int, float]:
    """Return, per stage, the seconds before a forward can reach it."""
    found = {chain.stages[0]: 0.0}
    for left, right in pairwise(chain.stages):
        far = schedule.placement[left] != schedule.placement[right]
        found[right] = found[left] + times[left].forward + (times[left].send_forward if far else 0.0)
    return found


def _up(schedule: Schedule, chain: Chain, times: tuple[StageTimes, ...]) -> dict[int, float]:
    """Return, per stage, the seconds that the chain still takes when its input gradient is made."""
    first = chain.stages[0]
    found = {first: times[first].backward_weight}
    for left, right in pairwise(chain.stages):
        far = schedule.placement[left] != schedule.placement[right]
        found[right] = found[left] + _back(times[left]) + (times[right].send_backward if far else 0.0)
    return found
