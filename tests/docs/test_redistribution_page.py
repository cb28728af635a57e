"""The examples of docs/concepts/redistribution.md do what the page shows."""

import pytest

from .examples import assert_console, blocks, run_python

PAGE = "redistribution.md"


def test_python() -> None:
    ran = run_python(PAGE)
    assert (ran.failed, ran.attempted) == (0, 11)


@pytest.mark.parametrize("block", blocks(PAGE, "console"))
def test_console(block: str) -> None:
    assert_console(block)
