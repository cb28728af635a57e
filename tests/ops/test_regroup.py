"""The line of a reshape on symbolic sizes, and what it refuses."""

import pytest

from planner.core.mesh import DeviceMesh
from planner.core.strategy import ShardStrategy, layouts, problems
from planner.core.symbol import Size, symbol
from planner.core.tensor import TensorMeta
from planner.errors import PlannerError
from planner.ops import OPS

B, S = symbol("B"), symbol("S")
RESHAPE = OPS["reshape"]


def line(before: tuple[Size, ...], sizes: str) -> str:
    metas = (TensorMeta(before),)
    made = RESHAPE.infer(metas, {"sizes": sizes})
    return str(RESHAPE.rule(metas, made, {"sizes": sizes}))


@pytest.mark.parametrize(
    ("before", "sizes", "said"),
    [
        ((B, S, 4096), "B, S, 32, 128", "batch seq (d2 d3) -> batch seq d2 d3"),
        ((B, S, 4096), "B·S, 4096", "batch seq d2 -> (batch seq) d2"),
        ((B, S, 32, 128), "B, S, -1", "batch seq d2 d3 -> batch seq (d2 d3)"),
        ((B, S, 64), "-1", "batch seq d2 -> (batch seq d2)"),
        ((1024, 512, 512), "1024, 2, 256, 512", "d0 (d1 d2) d3 -> d0 d1 d2 d3"),
        ((8, 1, 6), "8, 6, 1", "d0 1 d1 -> d0 d1 1"),
        ((4, 6), "6, 4", "(d0 x1) x2 -> (d0 y3) y4"),
        ((1,), "", "1 ->"),
    ],
)
def test_lines(before: tuple[Size, ...], sizes: str, said: str) -> None:
    assert line(before, sizes).strip() == said.strip()


@pytest.mark.parametrize(
    ("before", "sizes", "code"),
    [
        ((8, 4), "5, 6", "reshape.elements"),
        ((8, 4), "5, -1", "rule.attribute"),
        ((8, 4), "-1, -1", "rule.attribute"),
        ((B, 4), "S, -1", "rule.attribute"),
        ((), "1", "rule.attribute"),
        ((8, 4), "eight", "reshape.elements"),
        ((8, 4), "8 4", "model.size-syntax"),
    ],
)
def test_refusals(before: tuple[Size, ...], sizes: str, code: str) -> None:
    with pytest.raises(PlannerError) as caught:
        line(before, sizes)
    assert caught.value.code == code


def test_known_layouts_go_through() -> None:
    """What a Python library for MindSpore and torch tests of its reshape, and two that it refuses."""
    mesh = DeviceMesh.parse("dp:2,mp:4")

    def after(before: tuple[int, ...], sizes: str, **factors: tuple[str, ...]) -> str:
        metas = (TensorMeta(before),)
        rule = RESHAPE.rule(metas, RESHAPE.infer(metas, {"sizes": sizes}), {"sizes": sizes})
        strategy = ShardStrategy.of(factors)
        known = {factor: size for factor, size in rule.sizes if isinstance(size, int)}
        found = problems(rule, strategy, known, mesh, "reshape")
        return found[0].code if found else str(layouts(rule, strategy)[1][0])

    assert after((1024, 512, 512), "1024, 2, 256, 512", d0=("dp",)) == "[dp, -, -, -]"
    assert after((4, 4, 8), "16, 8", d0=("dp",)) == "[dp, -]"
    assert after((32, 128), "4, 8, 128", d0=("dp",)) == "[dp, -, -]"
    assert after((4, 8, 4, 12), "4, 8, 12, 4", d4=("mp",)) == "rule.minor-factor"
    assert after((4, 8, 12, 7), "4, 8, 2, 42", d2=("mp",)) == "rule.merged-uneven"
    assert after((4, 6), "6, 4", d0=("dp",)) == "[dp, -]"
    assert after((4, 6), "6, 4", x1=("dp",)) == "rule.factor-blocked"
