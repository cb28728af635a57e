"""What a node does about factors that nobody decided: it follows its operands where that is legal."""

import pytest

from planner.assign.follow import follow
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh
from planner.core.rule import ShardingRule

MESH = DeviceMesh.parse("a:2,b:2,c:3,d:3")
LINEAR = ShardingRule.parse(
    "batch seq k, n k -> batch seq n", shapes=((4, 8, 8), (12, 8), (4, 8, 12)), names=("x", "w"), terms="x*w"
)
ADD = ShardingRule.parse("t h, t h -> t h", shapes=((4, 8), (4, 8), (4, 8)), names=("x", "y"), terms="x + y")
HEADS = ShardingRule.parse(
    "b s (g r e) -> b (g r) s e", shapes=((4, 8, 16), (4, 4, 8, 4)), sizes={"g": 2, "r": 2}, even=frozenset({"g", "r"})
)
ROWS = ShardingRule.parse("(r e) -> r e", shapes=((12,), (6, 2)), names=("x",), terms="x", sizes={"r": 6})
BLOCKED = ShardingRule.parse("t e -> t e", shapes=((4, 8), (4, 8)), blocked={"e": "why"})

THIN = ShardingRule.parse("t k -> t k", shapes=((12, 8), (12, 8)), special=frozenset({"t"}), least={"t": 4})


def followed(
    rule: ShardingRule, arriving: dict[int, str], pinned: dict[str, tuple[str, ...]] | None = None,
    taken: tuple[str, ...] = (),
) -> dict[str, tuple[str, ...]]:  # fmt: skip
    layouts = {i: Layout.parse(text) for i, text in arriving.items()}
    found = follow(rule, layouts, pinned or {}, dict(rule.sizes), MESH, taken)  # type: ignore[arg-type]
    return {factor: axes for factor, axes in found.items() if axes}


@pytest.mark.parametrize(
    ("rule", "arriving", "pinned", "expected"),
    [
        (LINEAR, {0: "[a, -, -]"}, {}, {"batch": ("a",)}),
        (LINEAR, {0: "[a, -, b]"}, {}, {"batch": ("a",), "k": ("b",)}),
        (LINEAR, {0: "[b·a, -, -]"}, {}, {"batch": ("b", "a")}),
        # A pin wins, and what it uses is no longer free.
        (LINEAR, {0: "[a, -, -]"}, {"batch": ()}, {}),
        (LINEAR, {0: "[a, b, -]"}, {"n": ("b",)}, {"batch": ("a",), "n": ("b",)}),
        (LINEAR, {0: "[a, -, -]"}, {"batch": ("b",)}, {"batch": ("b",)}),
        # All of a dim's axes or none: part of them would be another layout.
        (LINEAR, {0: "[a·b, -, -]"}, {"n": ("b",)}, {"n": ("b",)}),
        # Partial sums are not followed.
        (LINEAR, {0: "[a, -, -] +b"}, {}, {"batch": ("a",)}),
        # Earlier operands win.
        (ADD, {0: "[a, -]", 1: "[-, a]"}, {}, {"t": ("a",)}),
        (ADD, {0: "[a, -]", 1: "[b, -]"}, {}, {"t": ("a",)}),
        (ADD, {1: "[-, b]"}, {}, {"h": ("b",)}),
        (ADD, {0: "[-, -]", 1: "[b, -]"}, {}, {"t": ("b",)}),
        # Blocked factors are gathered.
        (BLOCKED, {0: "[a, b]"}, {}, {"t": ("a",)}),
        # A factor is left whole where its shards would be too thin for what neighbours read of them.
        (THIN, {0: "[c, -]"}, {}, {"t": ("c",)}),
        (THIN, {0: "[a·b, -]"}, {}, {}),
        # A merged dim hands its axes to its factors, major first.
        (HEADS, {0: "[-, -, a]"}, {}, {"g": ("a",)}),
        (HEADS, {0: "[-, -, a·b]"}, {}, {"g": ("a",), "r": ("b",)}),
        (HEADS, {0: "[a, b, -]"}, {}, {"b": ("a",), "s": ("b",)}),
        # Three does not divide two groups.
        (HEADS, {0: "[-, -, c]"}, {}, {}),
        # Sizes that do not divide are followed all the same, unless they are to be even.
        (LINEAR, {0: "[c, -, -]"}, {}, {"batch": ("c",)}),
        (LINEAR, {0: "[a·c, b, -]"}, {}, {"batch": ("a", "c"), "seq": ("b",)}),
        # In a merged dim, only where the chunks are those of the factors: six rows of two over three, or over two.
        (ROWS, {0: "[c]"}, {}, {"r": ("c",)}),
        (ROWS, {0: "[a·b]"}, {}, {"r": ("a",)}),
        (ROWS, {0: "[c·a·b]"}, {}, {"r": ("c", "a"), "e": ("b",)}),
        # Over three times three, the rows are cut into 2, 0, 0, and the dim of twelve too.
        (ROWS, {0: "[c·d]"}, {}, {"r": ("c", "d")}),
        # Without g down to 1 on each rank, r can't be sharded.
        (HEADS, {0: "[-, -, a·b]"}, {"g": ()}, {}),
    ],
)
def test_follow(
    rule: ShardingRule,
    arriving: dict[int, str],
    pinned: dict[str, tuple[str, ...]],
    expected: dict[str, tuple[str, ...]],
) -> None:
    assert followed(rule, arriving, pinned) == expected


def test_axes_that_are_kept_partial_are_not_followed() -> None:
    assert followed(LINEAR, {0: "[a, b, -]"}, taken=("a",)) == {"seq": ("b",)}
