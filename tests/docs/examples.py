"""Does what a page of the documentation shows: its Python lines, and its commands."""

import doctest
import re
import shlex
from pathlib import Path

from tests.cli.command import shardwright

CONCEPTS = Path(__file__).parents[2] / "docs" / "concepts"


def blocks(page: str, kind: str) -> list[str]:
    """Return the blocks of a kind, such as `python`, on a page of the concepts."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", (CONCEPTS / page).read_text("utf-8"), re.M | re.S)


def run_python(page: str) -> doctest.TestResults:
    """Run the Python lines of a page, one block after the other; return how many there are and how many failed."""
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTestParser().get_doctest("".join(blocks(page, "python")), {}, page, None, 0))
    return doctest.TestResults(runner.failures, runner.tries)


def assert_console(block: str) -> None:
    """Run the command of a block and compare what it prints, but for times, which follow the prices."""
    command, _, shown = block.partition("\n")
    program, *arguments = shlex.split(command.removeprefix("$ "))
    assert program == "shardwright"
    assert _timeless(shardwright(*arguments).out) == _timeless(shown)


def _timeless(text: str) -> str:
    return re.sub(r"[\d.]+ µs", "… µs", text)
