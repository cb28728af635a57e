"""The examples of docs/concepts/layouts.md do what the page shows."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.command import shardwright

PAGE = (Path(__file__).parents[2] / "docs" / "concepts" / "layouts.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(python|console)\n(.*?)^```$", PAGE, re.M | re.S)


def test_the_page_has_examples_of_both_kinds() -> None:
    assert [kind for kind, _ in BLOCKS].count("python") >= 4
    assert [kind for kind, _ in BLOCKS].count("console") >= 1


def test_python() -> None:
    text = "".join(block for kind, block in BLOCKS if kind == "python")
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest(text, {}, "layouts.md", None, 0))
    assert runner.failures == 0
    assert runner.tries > 20


@pytest.mark.parametrize("block", [block for kind, block in BLOCKS if kind == "console"])
def test_console(block: str) -> None:
    command, _, shown = block.partition("\n")
    program, *arguments = shlex.split(command.removeprefix("$ "))
    assert program == "shardwright"
    assert _timeless(shardwright(*arguments).out) == _timeless(shown)


def _timeless(text: str) -> str:
    """Return the text without times, which follow the prices."""
    return re.sub(r"[\d.]+ µs", "… µs", text)
