"""The examples of docs/concepts/rules.md do what the page shows, and its lines are those of the operators."""

import re

import pytest

pytest.importorskip("torch")

from planner.ops import OPS
from tests.ops.cases import CASES

from .examples import CONCEPTS, blocks, run_python
from .test_operators_page import page

PAGE = "rules.md"


def test_python() -> None:
    ran = run_python(PAGE)
    assert ran.failed == 0
    assert ran.attempted > 5


def test_lines() -> None:
    lines = [line.split(maxsplit=1) for block in blocks(PAGE, "text") for line in block.splitlines() if "->" in line]
    shown = [(name, rule) for name, rule in lines if name in OPS]
    assert len(shown) >= 5
    for name, rule in shown:
        assert rule in {str(one.rule) for one in CASES.values() if one.op == name}, name


def test_parts() -> None:
    """Each small graph that the page names is the one that the operator has."""
    named = re.findall(r"`(\w+)`: ((?:\w+ → )+\w+)", (CONCEPTS / PAGE).read_text("utf-8"))
    assert len(named) >= 5
    generated = page()
    for op, parts in named:
        assert op in OPS
        (row,) = [line for line in generated.splitlines() if line.startswith(f"| `{op}` |")]
        assert parts in row, (op, parts)
