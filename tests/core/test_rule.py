"""Rule lines: printing and reading, sizes, roles, refusals; and the lines of every operator."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.core.rule import ShardingRule
from planner.core.symbol import symbol
from planner.errors import RuleError

LINEAR = ShardingRule.parse(
    "batch seq k, n k, n -> batch seq n",
    shapes=((symbol("B"), symbol("S"), 8), (12, 8), (12,), (symbol("B"), symbol("S"), 12)),
    names=("x", "weight", "bias"),
    terms="x*weight + bias",
)
FACTOR_SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 1}


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, tuple[tuple[int, ...], ...]]:
    """Draw a rule line with shapes that fit it; every factor stands alone somewhere, so that its size is known."""
    tensors = [[[name] for name in FACTOR_SIZES]]
    for _ in range(draw(st.integers(1, 3))):
        names = draw(st.lists(st.sampled_from(list(FACTOR_SIZES)), max_size=4, unique=True))
        dims: list[list[str]] = []
        for name in names:
            if draw(st.booleans()):
                dims.append([])
            if dims and dims[-1] and draw(st.booleans()):
                dims[-1].append(name)
            else:
                dims += [[]] * draw(st.integers(0, 1))
                dims.append([name])
        tensors.append(dims)
    text = [" ".join(f"({' '.join(dim)})" if len(dim) > 1 else "".join(dim) or "1" for dim in dims) for dims in tensors]
    shapes = []
    for dims in tensors:
        shape = []
        for dim in dims:
            size = 1
            for name in dim:
                size *= FACTOR_SIZES[name]
            shape.append(size)
        shapes.append(tuple(shape))
    return f"{', '.join(text[:-1])} -> {text[-1]}".strip(), tuple(shapes)


@given(lines())
def test_reading_what_is_printed(drawn: tuple[str, tuple[tuple[int, ...], ...]]) -> None:
    line, shapes = drawn
    rule = ShardingRule.parse(line, shapes=shapes)
    assert str(rule) == line
    assert ShardingRule.parse(str(rule), shapes=shapes) == rule
    assert dict(rule.sizes) == FACTOR_SIZES
    assert set(rule.reductions) == set(rule.factors) - rule.result_factors


def test_linear() -> None:
    assert str(LINEAR) == "batch seq k, n k, n -> batch seq n"
    assert LINEAR.factors == ("batch", "seq", "k", "n")
    assert LINEAR.terms == ((0, 1), (2,))
    assert LINEAR.reductions == ("k",)
    assert LINEAR.size("batch") == symbol("B")
    assert [LINEAR.role(f) for f in LINEAR.factors] == ["pass-through", "pass-through", "reduction", "pass-through"]
    assert LINEAR.factors_of(2) == {"n"}


def test_a_dim_of_no_factor_has_size_one() -> None:
    rule = ShardingRule.parse("a b, 1 b -> a b", shapes=((2, 3), (1, 3), (2, 3)))
    assert rule.operands[1] == ((), ("b",))
    assert rule.factors == ("a", "b")
    with pytest.raises(RuleError, match="has size 1, the dim 2"):
        ShardingRule.parse("a b, 1 b -> a b", shapes=((2, 3), (2, 3), (2, 3)))


def test_roles() -> None:
    rule = ShardingRule.parse(
        "t c, c -> t", shapes=((4, 8), (8,), (4,)), blocked={"t": "why"}, special=frozenset({"c"})
    )  # fmt: skip
    assert (rule.role("t"), rule.role("c")) == ("blocked", "special")


def test_a_merged_dim_gives_the_size_of_its_open_factor() -> None:
    rule = ShardingRule.parse("b (g r e) -> b (g r) e", shapes=((2, 24), (2, 6, 4)), sizes={"g": 2})
    assert dict(rule.sizes) == {"b": 2, "g": 2, "r": 3, "e": 4}


@pytest.mark.parametrize(
    ("line", "shapes", "sizes", "code", "said"),
    [
        ("a b -> a", ((2,), (2,)), {}, "rule.rank", ["'a b -> a'", "((2,), (2,))"]),
        ("a, a -> a", ((2,), (3,), (2,)), {}, "rule.size", ["factor a", "2 and 3"]),
        ("(g e) e -> g", ((24, 4), (5,)), {}, "rule.size", ["(g e)", "20", "24"]),
        ("(g e) e -> e", ((symbol("B"), 4), (4,)), {"g": 2}, "rule.size", ["(g e)", "8", "B"]),
    ],
)
def test_refusals(line: str, shapes: tuple, sizes: dict, code: str, said: list[str]) -> None:  # type: ignore[type-arg]
    with pytest.raises(RuleError) as caught:
        ShardingRule.parse(line, shapes=shapes, sizes=sizes)
    assert caught.value.code == code
    assert all(word in str(caught.value) for word in said), caught.value


def test_a_factor_that_nothing_gives_a_size_is_named() -> None:
    with pytest.raises(RuleError) as caught:
        ShardingRule.parse("(g r) -> (g r)", shapes=((24,), (24,)))
    assert caught.value.code == "rule.size"
    assert re.search(r"\b[gr]\b", str(caught.value))


def test_a_symbolic_dim_can_hold_no_open_factor() -> None:
    with pytest.raises(RuleError) as caught:
        ShardingRule.parse("(g e) e -> e", shapes=((symbol("B"), 4), (4,)))
    assert caught.value.code == "rule.size"
