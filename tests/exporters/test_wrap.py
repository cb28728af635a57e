"""Broken lines are the same code, and short where brackets allow it."""

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.exporters.explicit.wrap import assignment, wrapped

NAMES = st.sampled_from(["x", "value", "a_rather_long_name", '"[a, (b·c)]"', "'it, is ]'", "1.5"])


def calls() -> st.SearchStrategy[str]:
    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        many = st.lists(inner, max_size=4)
        return st.one_of(
            many.map(lambda parts: f"f({', '.join(parts)})"),
            many.map(lambda parts: f"[{', '.join(parts)}]"),
            many.map(lambda parts: f"({''.join(f'{part}, ' for part in parts)})"),
            inner.map(lambda part: f"g(option={part})"),
        )

    return st.recursive(NAMES, extend, max_leaves=30)


@given(
    value=calls(), targets=st.lists(st.sampled_from(["y", "result_for_reader"]), max_size=6), width=st.integers(20, 90)
)
def test_the_code_is_the_same(value: str, targets: list[str], width: int) -> None:
    line = f"{', '.join(targets)} = {value}" if targets else value
    lines = assignment(targets, value, width)
    assert ast.dump(ast.parse("\n".join(lines))) == ast.dump(ast.parse(line))
    if len(line) <= width and len(", ".join(targets)) <= width * 2 // 3:
        assert lines == [line]


def test_a_long_call_is_broken_at_its_arguments() -> None:
    assert wrapped("    y = call(first_argument, [a, b], third)", 24) == [
        "    y = call(",
        "        first_argument,",
        "        [a, b],",
        "        third,",
        "    )",
    ]


@pytest.mark.parametrize("line", ["x = a_name_without_any_bracket", "x = f()"])
def test_what_has_no_argument_stays(line: str) -> None:
    assert wrapped(line, 5) == [line]


def test_an_index_is_not_broken_and_a_sum_is() -> None:
    assert wrapped("    y = scale(x) * weight[:, None] + bias[:, None]", 40) == [
        "    y = (",
        "        scale(x) * weight[:, None]",
        "        + bias[:, None]",
        "    )",
    ]
    assert wrapped("y = x[:, None]", 5) == ["y = x[:, None]"]
    assert wrapped('y = "a + b" * x[a + b]', 5) == ['y = "a + b" * x[a + b]']
