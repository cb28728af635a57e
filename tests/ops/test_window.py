"""Windows: how many there are, what shards lack of their neighbours, and what may not be sharded."""

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

pytest.importorskip("torch")
import torch
import torch.nn.functional as F

from planner.core.mesh import DeviceMesh
from planner.core.strategy import ShardStrategy, problems
from planner.core.symbol import symbol
from planner.errors import RuleError
from planner.ops.window import Window, windows

from .cases import meta, node, sizes
from .ranks import parts_of

WINDOWS = st.builds(
    lambda size, kernel, stride, padding, dilation: Window(
        size=size, kernel=kernel, stride=stride, padding=padding, dilation=dilation
    ),
    st.integers(1, 24), st.integers(1, 5), st.integers(1, 4), st.integers(0, 4), st.integers(1, 3),
)  # fmt: skip


@given(WINDOWS)
def test_there_are_as_many_as_torch_makes(window: Window) -> None:
    assume(window.size + 2 * window.padding >= window.reach)  # type: ignore[operator]
    x, weight = torch.zeros(1, 1, window.size), torch.zeros(1, 1, window.kernel)  # type: ignore[arg-type]
    result = F.conv1d(x, weight, None, window.stride, window.padding, window.dilation)
    assert window.out == result.shape[2]


def test_the_halo_is_what_windows_reach() -> None:
    """Row by row: what the windows of each shard read outside of the shard."""
    seen = 0
    for kernel, stride, padding, dilation, shards, rows in product(
        range(1, 6), range(1, 5), range(5), (1, 2, 3), (2, 3), (1, 2, 4)
    ):
        size = rows * shards * stride
        window = Window(size=size, kernel=kernel, stride=stride, padding=padding, dilation=dilation)
        if size + 2 * padding < window.reach or window.refusal or rows < window.least:
            continue
        read = {
            (i // rows, i * stride - padding + tap * dilation) for i in range(rows * shards) for tap in range(kernel)
        }
        held = rows * stride
        before = max([0, *(shard * held - row for shard, row in read)])
        after = max([0, *(row - (shard + 1) * held + 1 for shard, row in read)])
        assert (before, after) == (window.before, window.after)
        assert max(before, after) <= held
        seen += 1
    assert seen > 200


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        (Window(size=8, kernel=3, stride=1, padding=0), "its 8 rows are not 1 times the 6 of the result"),
        (Window(size=9, kernel=2, stride=2, padding=0), "its 9 rows are not 2 times the 4 of the result"),
        (Window(size=symbol("S"), kernel=3, stride=1, padding=1), "needs a number of rows, not S"),
        (Window(size=symbol("S"), kernel=1, stride=1, padding=0), ""),
        (Window(size=8, kernel=2, stride=2, padding=0), ""),
        (Window(size=8, kernel=5, stride=1, padding=2), ""),
    ],
)
def test_refusals(window: Window, reason: str) -> None:
    assert reason in window.refusal
    assert bool(reason) == bool(window.refusal)


def test_shards_thinner_than_a_halo_are_refused() -> None:
    one = node("convolution", meta(2, 4, 8), meta(4, 4, 5), padding=(2,))
    mesh = DeviceMesh.parse("a:8")
    (problem,) = problems(one.rule, ShardStrategy.of({"x": ("a",)}), sizes(one), mesh, one.name)
    assert problem.code == "rule.factor-thin"
    assert "leaves 1 to a device, but its neighbours read 2 of them" in problem.message
    assert not problems(one.rule, ShardStrategy.of({"x": ("a",)}), sizes(one), DeviceMesh.parse("a:4"), one.name)


def test_attributes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(RuleError, match=r"stride = \(2,\) is not 2 integers"):
        windows({"stride": (2,)}, (8, 8), (3, 3))
    with pytest.raises(RuleError, match="number of rows, not S"):
        Window(size=symbol("S"), kernel=3, stride=2, padding=1).out  # noqa: B018


def test_what_is_kept_partial_passes_the_halo_so() -> None:
    """Borders are picked and put around shards as partial sums; only the convolution's result is whole again."""
    one = node("convolution", meta(2, 4, 8), meta(4, 4, 3), meta(4), padding=(1,))
    strategy = ShardStrategy.of({"x": ("a",)}, {"b": (0, 2)})
    parts = parts_of(one, strategy, DeviceMesh.parse("a:2,b:2"))
    assert [part.op for part, _ in parts] == ["borders", "extend", "convolution"]
    assert [dict(its.kept) for _, its in parts] == [{"b": (0,)}, {"b": (0, 1)}, {"b": (0, 2)}]
    by_weight = ShardStrategy.of({"x": ("a",)}, {"b": (1, 2)})
    kept = [dict(its.kept) for _, its in parts_of(one, by_weight, DeviceMesh.parse("a:2,b:2"))]
    assert kept == [{}, {}, {"b": (1, 2)}]
