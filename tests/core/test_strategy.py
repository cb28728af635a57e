"""Strategies: the layouts that follow from them, what is refused, and what each refusal says."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.core.mesh import DeviceMesh
from planner.core.rule import ShardingRule
from planner.core.strategy import ShardStrategy, layouts, problems
from planner.errors import Diagnostic

MESH = DeviceMesh.parse("dp:2,tp:4,cp:2")
LINEAR = ShardingRule.parse(
    "batch seq k, n k, n -> batch seq n",
    shapes=((4, 8, 16), (24, 16), (24,), (4, 8, 24)),
    names=("x", "weight", "bias"),
    terms="x*weight + bias",
)
ATTENTION = ShardingRule.parse(
    "batch (g r) seq e, batch g key e, batch g key d -> batch (g r) seq d",
    shapes=((4, 8, 8, 4), (4, 2, 8, 4), (4, 2, 8, 4), (4, 8, 8, 4)),
    names=("q", "k", "v"),
    terms="v",
    sizes={"g": 2},
    blocked={"key": "softmax needs the scores of all keys"},
    even=frozenset({"g", "r"}),
)
NORM = ShardingRule.parse("t h, h -> t h", shapes=((4, 8), (8,), (4, 8)), names=("x", "w"), terms="w")
WINDOW = ShardingRule.parse("t k -> t k", shapes=((12, 8), (12, 8)), least={"t": 5})
SOFTMAX = ShardingRule.parse("t h -> t h", shapes=((4, 8), (4, 8)))
PRODUCT = ShardingRule.parse(
    "t k, k, t, t -> t", shapes=((4, 8), (8,), (4,), (4,), (4,)), names=("x", "w", "y", "z"), terms="x*w + y*z"
)
# Over four ranks, the dim of twelve is cut by three; its rows of two are not.
FLATTEN = ShardingRule.parse("r c -> (r c)", shapes=((6, 2), (12,)), names=("x",), terms="x", sizes={"r": 6})


def show(rule: ShardingRule, strategy: ShardStrategy) -> str:
    operands, results = layouts(rule, strategy)
    return f"{', '.join(map(str, operands))} -> {', '.join(map(str, results))}"


def against(rule: ShardingRule, strategy: ShardStrategy, mesh: DeviceMesh = MESH) -> tuple[Diagnostic, ...]:
    return problems(rule, strategy, dict(rule.sizes), mesh, "layers.0.op")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("factors", "kept", "expected"),
    [
        ({}, {}, "[-, -, -], [-, -], [-] -> [-, -, -]"),
        ({"batch": "dp", "n": "tp"}, {}, "[dp, -, -], [tp, -], [tp] -> [dp, -, tp]"),
        ({"seq": "cp", "k": "tp"}, {}, "[-, cp, tp], [-, tp], [-] +tp -> [-, cp, -] +tp"),
        ({"n": "dp cp"}, {}, "[-, -, -], [dp·cp, -], [dp·cp] -> [-, -, dp·cp]"),
        ({"n": "cp dp"}, {}, "[-, -, -], [cp·dp, -], [cp·dp] -> [-, -, cp·dp]"),
        ({"n": "tp"}, {"dp": (0, 2)}, "[-, -, -] +dp, [tp, -], [tp] +dp -> [-, -, tp] +dp"),
        ({"k": "tp"}, {"dp": (1, 2)}, "[-, -, tp], [-, tp] +dp, [-] +dp·tp -> [-, -, -] +dp·tp"),
    ],
)
def test_layouts_of_linear(factors: dict[str, str], kept: dict[str, tuple[int, ...]], expected: str) -> None:
    strategy = ShardStrategy.of({f: tuple(axes.split()) for f, axes in factors.items()}, kept)
    assert against(LINEAR, strategy) == ()
    assert show(LINEAR, strategy) == expected


def test_layouts_of_grouped_attention() -> None:
    mesh = DeviceMesh.parse("tp0:2,tp1:2")
    strategy = ShardStrategy.of({"g": ("tp0",), "r": ("tp1",)})
    assert against(ATTENTION, strategy, mesh) == ()
    heads, groups = "[-, tp0·tp1, -, -]", "[-, tp0, -, -]"
    assert show(ATTENTION, strategy) == f"{heads}, {groups}, {groups} -> {heads}"


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        # Unequal parts, parts of which some are empty, and both at once.
        ({"batch": "tp dp"}, "[tp·dp, -, -], [-, -], [-] -> [tp·dp, -, -]"),
        ({"seq": "odd", "k": "tp"}, "[-, odd, tp], [-, tp], [-] +tp -> [-, odd, -] +tp"),
        ({"n": "odd tp cp"}, "[-, -, -], [odd·tp·cp, -], [odd·tp·cp] -> [-, -, odd·tp·cp]"),
    ],
)
def test_factors_may_be_cut_into_unequal_parts(factors: dict[str, str], expected: str) -> None:
    mesh = DeviceMesh.parse("dp:2,tp:4,cp:2,odd:5")
    strategy = ShardStrategy.of({f: tuple(axes.split()) for f, axes in factors.items()})
    assert against(LINEAR, strategy, mesh) == ()
    assert show(LINEAR, strategy) == expected


def test_a_merged_dim_may_be_cut_unevenly_where_its_chunks_are_those_of_its_factors() -> None:
    mesh = DeviceMesh.parse("tp:4,wide:8")
    assert against(FLATTEN, ShardStrategy.of({"r": ("wide",)}), mesh) == ()
    assert [p.code for p in against(FLATTEN, ShardStrategy.of({"r": ("tp",)}), mesh)] == ["rule.merged-uneven"]


def test_a_nonlinear_sum_needs_no_terms() -> None:
    rule = ShardingRule.parse("t h -> t", shapes=((4, 8), (4,)))
    assert show(rule, ShardStrategy.of({"h": ("tp",)})) == "[-, tp] -> [-] +tp"


@pytest.mark.parametrize(
    ("rule", "factors", "kept", "code", "said"),
    [
        (LINEAR, {"n": "xp"}, {}, "mesh.axis-unknown", ["dp:2,tp:4,cp:2", "'xp'", "dp, tp, cp"]),
        (LINEAR, {"n": "tp", "k": "tp"}, {}, "layout.axis-reused", ["'tp'", "k", "n", "once"]),
        (LINEAR, {"n": "dp"}, {"dp": (0, 2)}, "layout.axis-reused", ["'dp'", "n", "partial", "once"]),
        (LINEAR, {"m": "tp"}, {}, "rule.factor-unknown", ["'m'", "batch, seq, k, n"]),
        (
            ATTENTION,
            {"g": "dp cp"},
            {},
            "rule.factor-even",
            ["g", "2", "4 parts", "2 % 4 = 2", "Take dp or cp from g", "a divisor of 2"],
        ),
        (
            FLATTEN,
            {"r": "tp"},
            {},
            "rule.merged-uneven",
            ["r of size 6", "tp", "(r c)", "place 0", "r 0:2, c 0:2", "0:3 of the dim", "a divisor of 6"],
        ),
        (ATTENTION, {"key": "tp"}, {}, "rule.factor-blocked", ["key", "softmax", "Take tp from key"]),
        (ATTENTION, {"g": "tp"}, {}, "rule.factor-even", ["g", "2", "4 parts", "2 % 4 = 2", "1, 2"]),
        (ATTENTION, {"r": "dp"}, {}, "rule.minor-factor", ["r", "(g r)", "2 are left", "Shard g first"]),
        (NORM, {}, {"tp": (0,)}, "rule.partial-carrier", ["tp", "1 terms", "(0,)", "one operand"]),
        (LINEAR, {}, {"tp": (0,)}, "rule.partial-carrier", ["tp", "2 terms", "(0,)"]),
        (LINEAR, {}, {"tp": (0, 1)}, "rule.partial-carrier", ["(0, 1)"]),
        (SOFTMAX, {}, {"tp": ()}, "rule.partial-nonlinear", ["nonlinear", "tp", "Drop"]),
        (WINDOW, {"t": "tp"}, {}, "rule.factor-thin", ["t", "12", "4 parts", "leaves 3", "5 of them", "at most 2"]),
        (PRODUCT, {"k": "tp"}, {}, "rule.partial-carrier", ["k", "tp", "Take tp from k"]),
    ],
)
def test_refusals(
    rule: ShardingRule, factors: dict[str, str], kept: dict[str, tuple[int, ...]], code: str, said: list[str]
) -> None:
    found = against(rule, ShardStrategy.of({f: tuple(a.split()) for f, a in factors.items()}, kept))
    assert [problem.code for problem in found] == [code]
    (problem,) = found
    assert problem.subject == "layers.0.op"
    assert "layers.0.op" in problem.message
    assert problem.hint.endswith(".")
    for word in said:
        assert re.search(rf"(?<!\w){re.escape(word)}", str(problem)), f"{word!r} is not in: {problem}"


def test_all_problems_are_told_at_once() -> None:
    found = against(ATTENTION, ShardStrategy.of({"key": ("dp",), "g": ("tp",), "batch": ("dp",)}))
    assert {problem.code for problem in found} == {"layout.axis-reused", "rule.factor-blocked", "rule.factor-even"}


@given(st.dictionaries(st.sampled_from("bnk"), st.lists(st.sampled_from(["x", "y"]), max_size=2).map(tuple)))
def test_equal_strategies_are_equal(factors: dict[str, tuple[str, ...]]) -> None:
    backwards = dict(reversed(factors.items()))
    assert ShardStrategy.of(factors) == ShardStrategy.of(backwards)
    strategy = ShardStrategy.of(factors, {"z": (1,)})
    assert all(axes for _, axes in strategy.factors)
    assert all(strategy.axes(factor) == axes for factor, axes in factors.items())


def test_strategies_as_text() -> None:
    assert str(ShardStrategy()) == "replicated"
    assert str(ShardStrategy.of({"n": ("tp", "cp"), "batch": ("dp",)}, {"ep": (0,)})) == "batch=dp n=tp·cp +ep"
