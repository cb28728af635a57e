"""What a reduction of packed gradients passes, as it is or compressed: the collectives of one bucket and their bytes.

With n ranks, E elements passed into an all-reduce or a reduce-scatter, and c = ⌈E/n⌉ elements to a rank:

======== ==================================================== ==========================================
         all-reduce                                           reduce-scatter
======== ==================================================== ==========================================
none     itself                                               itself
bf16     itself, 2 B an element                               likewise
fp16     all-reduce of one scale; itself, 2 B an element      likewise
int8     all-to-all of n parts of w(c) bytes, each rank adds  all-to-all of n parts of w(c) bytes
         up its part; all-gather of the parts, w(c) bytes
one_bit  as int8                                              as int8
======== ==================================================== ==========================================

A part of c elements takes w(c) = b(c) + 4·⌈c/`BLOCK`⌉ bytes: b(c) = c for int8 and ⌈c/8⌉ for one_bit, and a scale in
float32 for each block. Sums of such numbers are no such numbers, so summands are passed instead of sums on their way
(Seide et al. 2014, "1-Bit stochastic gradient descent"; Tang et al. 2021, "1-bit Adam", section 5).
"""

from __future__ import annotations

from dataclasses import dataclass

BLOCK = 1024
"""Elements that share a scale."""
SCALE_BYTES = 4
HALF_BYTES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """One collective of a bucket: the bytes that a rank passes in and gets out, and those that it receives."""

    kind: str
    source_bytes: int
    target_bytes: int
    received_bytes: float


def passed(
    kind: str, ranks: int, source: int, target: int, element_bytes: int, compression: str = "none"
) -> tuple[Passed, ...]:
    """Return what runs for a reduction of packed gradients.

    Parameters
    ----------
    kind
        `all_reduce` or `reduce_scatter`, in equal parts.
    source, target
        Elements that a rank passes in and gets out.
    """
    match compression:
        case "none":
            return (_native(kind, ranks, source * element_bytes, target * element_bytes),)
        case "bf16":
            return (_native(kind, ranks, source * HALF_BYTES, target * HALF_BYTES),)
        case "fp16":
            scale = _native("all_reduce", ranks, SCALE_BYTES, SCALE_BYTES)
            return scale, _native(kind, ranks, source * HALF_BYTES, target * HALF_BYTES)
        case _:
            part = part_bytes(-(-source // ranks), compression)
            whole = ranks * part
            shared = whole * (ranks - 1) / ranks
            scattered = Passed(kind="all_to_all", source_bytes=whole, target_bytes=whole, received_bytes=shared)
            if kind == "reduce_scatter":
                return (scattered,)
            gathered = Passed(kind="all_gather", source_bytes=part, target_bytes=whole, received_bytes=shared)
            return scattered, gathered


def part_bytes(elements: int, compression: str) -> int:
    """Return the bytes of a part of so many elements, with its scales.

    Examples
    --------
    >>> part_bytes(2048, "int8"), part_bytes(2048, "one_bit"), part_bytes(9, "one_bit")
    (2056, 264, 6)
    """
    numbers = elements if compression == "int8" else -(-elements // 8)
    return numbers + SCALE_BYTES * -(-elements // BLOCK)


def _native(kind: str, ranks: int, source: int, target: int) -> Passed:
    received = source * (ranks - 1) / ranks * (2 if kind == "all_reduce" else 1)
    return Passed(kind=kind, source_bytes=source, target_bytes=target, received_bytes=received)
