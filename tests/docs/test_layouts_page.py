"""The examples of docs/concepts/layouts.md do what the page shows."""

import pytest

from .examples import assert_console, blocks, run_python

PAGE = "layouts.md"


def test_the_page_has_examples_of_both_kinds() -> None:
    assert len(blocks(PAGE, "python")) >= 4
    assert len(blocks(PAGE, "console")) >= 1


def test_python() -> None:
    ran = run_python(PAGE)
    assert ran.failed == 0
    assert ran.attempted > 20


@pytest.mark.parametrize("block", blocks(PAGE, "console"))
def test_console(block: str) -> None:
    assert_console(block)
