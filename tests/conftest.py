"""Settings of the test run: how many examples a property is tried on.

`make test` uses the profile `ci`: the same examples in each run, so that a failure is a change of
the code. `make test-full` sets HYPOTHESIS_PROFILE=full: new random examples, twenty times as many.
A test therefore does not set `max_examples` itself.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

CI_EXAMPLES = 50

# No deadline: the machine's load is no property of the code.
settings.register_profile("ci", max_examples=CI_EXAMPLES, derandomize=True, deadline=None)
settings.register_profile("full", max_examples=20 * CI_EXAMPLES, derandomize=False, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

GOLDEN = Path(__file__).parent / "golden"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write golden files instead of comparing with them")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with `tests/golden/<name>`, or write it there with --update-golden."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        assert text == path.read_text("utf-8"), f"{name} differs; --update-golden writes it anew"

    return compare
