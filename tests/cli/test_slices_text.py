"""Pictures of which rank holds which part."""

import pytest

from planner.cli.slices_text import ranks_text, slices_text
from planner.core.layout import Layout
from planner.core.mesh import DeviceMesh

MESH = DeviceMesh.parse("dp:2,tp:4")


def drawn(layout: str, shape: tuple[int, ...], mesh: DeviceMesh = MESH) -> list[str]:
    return slices_text("now", Layout.parse(layout), shape, mesh)


@pytest.mark.parametrize(
    ("ranks", "text"),
    [([3], "3"), ([0, 4], "0,4"), ([2, 3, 4, 5], "2-5"), ([0, 8, 16], "0,8…16"), ([0, 1, 4, 5], "0,1,4,5"),
     ([0, 1, 4, 5, 8, 9], "0,1,4…(6)"), ([], "")],
)  # fmt: skip
def test_ranks(ranks: list[int], text: str) -> None:
    assert ranks_text(ranks) == text


def test_pictures() -> None:
    assert drawn("[tp, dp]", (8, 8)) == [
        "now  [tp, dp]: 8 parts of 2×4, each on 1 rank",
        "  dim 0 ↓, dim 1 →  0  4",
        "                 0  0  4",
        "                 2  1  5",
        "                 4  2  6",
        "                 6  3  7",
    ]
    assert drawn("[-, tp]", (8, 8)) == [
        "now  [-, tp]: 4 parts of 8×2, each on 2 ranks",
        "  dim 0 ↓, dim 1 →    0    2    4    6",
        "                 0  0,4  1,5  2,6  3,7",
    ]
    assert drawn("[-, dp, -]", (2, 4, 6)) == [
        "now  [-, dp, -]: 2 parts of 2×2×6, each on 4 ranks",
        "  dim 1 ↓  ranks",
        "        0    0-3",
        "        2    4-7",
    ]
    assert drawn("[-]", (8,)) == ["now  [-]: one part, 8, each on 8 ranks", "  ranks 0-7"]
    assert drawn("[]", ()) == ["now  []: one part, a scalar, each on 8 ranks", "  ranks 0-7"]
    assert drawn("[-] +tp", (8,))[0] == "now  [-] +tp: one part, 8, the sum over 4 ranks still due, each on 2 ranks"
    assert drawn("[dp] max(tp)", (8,))[0] == "now  [dp] max(tp): 2 parts of 4, the maximum over 4 ranks still due"


def test_uneven_and_empty_parts() -> None:
    assert drawn("[dp·tp]", (5,)) == [
        "now  [dp·tp]: 5 parts of 1, each on 1 rank",
        "  nothing is left for ranks 3,6,7",
        "  dim 0 ↓  ranks",
        "        0      0",
        "        1      1",
        "        2      2",
        "        3      4",
        "        4      5",
    ]
    assert "several sizes" in drawn("[tp]", (7,))[0]


def test_large_ones_are_kept_short() -> None:
    long = drawn("[a]", (64,), DeviceMesh.parse("a:64"))
    assert len(long) == 2 + 11
    assert [line.split() for line in long[10:]] == [["8", "8"], ["…", "…"], ["63", "63"]]
    wide = drawn("[-, a]", (1, 64), DeviceMesh.parse("a:64"))
    assert wide[1].split()[-2:] == ["…", "63"]
    cube = drawn("[a, b, c]", (4, 4, 4), DeviceMesh.parse("a:4,b:4,c:4"))
    assert cube[2].split() == ["[0:1,", "0:1,", "0:1]", "0"]
    assert len(cube) == 2 + 11
    assert drawn("[a]", (8192,), DeviceMesh.parse("a:8192")) == ["now  [a]: 8,192 ranks are too many to draw"]
