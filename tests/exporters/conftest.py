"""What tests of bundles share."""

from collections.abc import Iterator

import pytest

from tests.exporters.ranks import RankProcesses


@pytest.fixture(scope="session")
def ranks() -> Iterator[RankProcesses]:
    """Return what forks rank processes; loading torch for them takes seconds, once."""
    with RankProcesses() as processes:
        yield processes
