"""Schedules made of one building block, repeated for every microbatch, on a V of two parts a rank.

With F = I = W = 1 every microbatch takes six slots of a rank, so the block of microbatch m starts at 6m. Within a
block, the passes move from rank to rank in fixed strides: forward down the V (`down`), forward up (`up`), backward down
(`back_down`), backward up (`back_up`), and wait a little at each turn. A microbatch keeps its two activations on a rank
for `(down + back_up)` and `(up + back_down)` slots a rank passed, so the peak is

```text
2 (p - 1) · strides / 6  activations of one part,  strides = down + back_up = up + back_down
```

of which 1F1B has 2p: three strides halve it, two take it to a third. The waits at the turns are the shortest with
which no two passes of a rank fall into one slot (modulo 6).

Source: Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product

from ..core.schedule import Action, vee
from .definition import Order, Pipeline, ScheduleDef, cells

SLOTS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Strides:
    """Slots from rank to rank of each leg; see the module docstring."""

    down: int
    up: int
    back_down: int
    back_up: int


@lru_cache(maxsize=64)
def _offsets(strides: Strides, ranks: int) -> tuple[tuple[int, int, int, int], ...]:
    """Return, per rank, the slots of its two forwards and two backwards within the block of microbatch 0."""
    last = ranks - 1
    for waits in sorted(product(range(1, 2 * SLOTS), repeat=3), key=lambda w: (sum(w), w)):
        turn = strides.down * last + waits[0]
        home = turn + strides.up * last + waits[1]
        back = home + strides.back_down * last + waits[2]
        found = tuple(
            (
                strides.down * rank,
                turn + strides.up * (last - rank),
                home + strides.back_down * rank,
                back + strides.back_up * (last - rank),
            )
            for rank in range(ranks)
        )
        if all(len({slot % SLOTS for slot in slots}) == len(slots) for slots in found):
            return found
    raise AssertionError(f"no building block of {strides} for {ranks} ranks")


def _order(pipeline: Pipeline, rank: int, strides: Strides) -> Order:
    slots = _offsets(strides, pipeline.ranks)[rank]
    down, up = rank, 2 * pipeline.ranks - 1 - rank
    free = [slot for slot in range(SLOTS) if slot not in {s % SLOTS for s in slots}]
    block = [*zip(slots, ((down, "F"), (up, "F"), (up, "I"), (down, "I")), strict=True)]
    for (after, (part, _)), slot in zip(block[2:], free, strict=True):
        block.append((after + 1 + (slot - after - 1) % SLOTS, (part, "W")))
    return cells(
        Action(part, kind, m)
        for _, m, part, kind in sorted(
            (SLOTS * m + slot, m, part, kind) for m in range(pipeline.microbatches) for slot, (part, kind) in block
        )
    )


V_HALF = ScheduleDef(
    name="v-half",
    summary="half of 1F1B's activations, and about half of its bubble where F = I = W",
    source="Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362",
    per_rank=2,
    placement=vee,
    order=lambda pipeline, rank: _order(pipeline, rank, Strides(down=2, up=1, back_down=2, back_up=1)),
)
V_MIN = ScheduleDef(
    name="v-min",
    summary="a third of 1F1B's activations, and about two thirds of its bubble where F = I = W",
    source="Qi et al., Pipeline Parallelism with Controllable Memory, arXiv 2405.15362",
    per_rank=2,
    placement=vee,
    order=lambda pipeline, rank: _order(pipeline, rank, Strides(down=1, up=1, back_down=1, back_up=1)),
)
