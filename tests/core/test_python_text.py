"""Trees of Python text, from many threads at once."""

from __future__ import annotations

import ast
import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from planner.core import graph, python_text
from planner.core.python_text import parsed, parsed_expression


def test_trees_are_those_of_ast() -> None:
    text = Path(python_text.__file__).read_text("utf-8")
    assert ast.dump(parsed(text)) == ast.dump(ast.parse(text))
    assert ast.dump(parsed_expression("f(x, 1)")) == ast.dump(ast.parse("f(x, 1)", mode="eval").body)
    with pytest.raises(SyntaxError):
        parsed("def")


class Cycle:
    """Garbage whose end runs Python, so that collecting it in the middle of a parse lets other threads in."""

    def __init__(self) -> None:
        self.own = self

    def __del__(self) -> None:
        sum(range(50))


def test_threads_do_not_disturb_each_other() -> None:
    text = Path(graph.__file__).read_text("utf-8")
    count = len(ast.parse(text).body)

    def parse(_: int) -> int:
        for _ in range(50):
            Cycle()
        return len(parsed(text).body)

    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(20)
    try:
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(parse, range(40)))
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)
    assert found == [count] * 40
