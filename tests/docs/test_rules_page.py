"""The examples of docs/concepts/rules.md do what the page shows, and its lines are those of the operators."""

import doctest
import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

from planner.ops import OPS
from tests.ops.cases import CASES

from .test_operators_page import page

PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "rules.md").read_text("utf-8")


def test_python() -> None:
    text = "".join(re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S))
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest(text, {}, "rules.md", None, 0))
    assert runner.failures == 0
    assert runner.tries > 5


def test_lines() -> None:
    blocks = re.findall(r"^```text\n(.*?)^```$", PAGE, re.M | re.S)
    lines = [line.split(maxsplit=1) for block in blocks for line in block.splitlines() if "->" in line]
    shown = [(name, rule) for name, rule in lines if name in OPS]
    assert len(shown) >= 5
    for name, rule in shown:
        assert rule in {str(one.rule) for one in CASES.values() if one.op == name}, name


def test_parts() -> None:
    """Each small graph that the page names is the one that the operator has."""
    named = re.findall(r"`(\w+)`: ((?:\w+ → )+\w+)", PAGE)
    assert len(named) >= 5
    generated = page()
    for op, parts in named:
        assert op in OPS
        (row,) = [line for line in generated.splitlines() if line.startswith(f"| `{op}` |")]
        assert parts in row, (op, parts)
