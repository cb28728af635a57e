"""The cluster that is meant where none is named."""

from __future__ import annotations

import pytest

from planner.hardware import cluster, cluster_name


@pytest.mark.parametrize(
    ("devices", "name"),
    [(1, "1x1-h100-sxm"), (8, "1x8-h100-sxm"), (12, "2x6-h100-sxm"), (13, "13x1-h100-sxm"), (16, "2x8-h100-sxm")],
)
def test_the_fewest_equal_nodes(devices: int, name: str) -> None:
    assert cluster_name(devices) == name
    assert cluster(name).device_count == devices
