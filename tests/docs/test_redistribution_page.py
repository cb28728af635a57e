"""The examples of docs/concepts/redistribution.md do what the page shows."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.command import shardwright

PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "redistribution.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(python|console)\n(.*?)^```$", PAGE, re.M | re.S)


def test_python() -> None:
    text = "".join(block for kind, block in BLOCKS if kind == "python")
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest(text, {}, "redistribution.md", None, 0))
    assert (runner.failures, runner.tries) == (0, 11)


@pytest.mark.parametrize("block", [block for kind, block in BLOCKS if kind == "console"])
def test_console(block: str) -> None:
    command, _, shown = block.partition("\n")
    program, *arguments = shlex.split(command.removeprefix("$ "))
    assert program == "shardwright"
    assert _timeless(shardwright(*arguments).out) == _timeless(shown)


def _timeless(text: str) -> str:
    """Return the text without times, which follow the prices."""
    return re.sub(r"[\d.]+ µs", "… µs", text)
