"""Completeness: on one axis, every placement of operands and results for which local work is right is in the rule.

All combinations over {R, S(dim), P(sum)} are tried on two ranks with generic data; size and offset arguments of the
line are localised. A rule refuses a right row only for a reason that is listed here.
"""

import pytest

pytest.importorskip("torch")

from planner.core.strategy import ShardStrategy

from .cases import CASES
from .placements import LINE, Row, parts_of, right_rows, rows

REFUSED: dict[str, tuple[set[Row], str]] = {
    **{
        name: (
            {(("R", "R", "S3", *["R"] * bias), ("S3",))},
            "fused attention kernels need keys and values of one width",
        )
        for name, bias in (
            ("attention", 0),
            ("full_attention", 0),
            ("full_attention-bias", 1),
            ("full_attention-mask", 1),
            ("masked_attention", 1),
            ("window_attention", 0),
        )
    },
    "concat-unequal": ({(("S1", "S1"), ("P",))}, "an axis shards one factor, and dims of two sizes are two"),
    "l2_scale": ({(("P", "R"), ("P",))}, "the sum of squares, which comes from the same operand, needs it whole"),
    "rms_scale": ({(("P", "R", "R"), ("P",))}, "the mean square, which comes from the same operand, needs it whole"),
    "rms_scale-plain": ({(("P", "R"), ("P",))}, "the mean square, which comes from the same operand, needs it whole"),
    "rotary-part": (set(), "what is not turned is no product with the cosines"),
    "rotary": ({(("R", "P", "P"), ("P",))}, "cosines and sines are made whole, never as partial sums"),
    "split-unequal": (
        {(("R",), ("R", "S2")), (("R",), ("S2", "R")), (("R",), ("S2", "S2"))},
        "results must lie over the same axes, and an axis shards one factor",
    ),
}
"""Per operator or case, the right rows that its rule refuses, and why."""
ORDINARY = [name for name, one in CASES.items() if parts_of(one, ShardStrategy(), LINE) == ((one, ShardStrategy()),)]
"""Cases with a line of their own; of the others the parts are cases."""


def refused_rows(name: str) -> set[Row]:
    """Return the right rows that a case refuses."""
    found, _reason = REFUSED.get(name) or REFUSED.get(CASES[name].op, (set(), ""))
    return found


def with_sums_only(found: set[Row]) -> set[Row]:
    """Leave out the rows with another reduction than the sum, which are not tried."""
    return {row for row in found if not any(p.startswith("P") and p != "P" for side in row for p in side)}


@pytest.mark.parametrize("name", ORDINARY)
def test_right_rows_are_allowed_and_allowed_rows_are_right(name: str) -> None:
    one = CASES[name]
    right, allowed = right_rows(one), rows(one)
    assert right - allowed == refused_rows(name)
    assert with_sums_only(allowed) <= right
