"""Each model that comes along has a group, and a plan to start from that fits its cluster."""

from importlib.resources import files
from math import prod

import pytest

from planner.compose import evaluate
from planner.hardware import cluster
from planner.importers import load_zoo
from planner.importers.zoo_table import GROUPS, ZOO
from planner.plan import Plan


def test_every_config_has_a_row() -> None:
    entries = (entry.name for entry in files("planner.importers").joinpath("zoo").iterdir())
    assert {name.removesuffix(".json") for name in entries if name.endswith(".json")} == set(ZOO)
    assert {entry.group for entry in ZOO.values()} == set(GROUPS)


@pytest.mark.parametrize("name", ZOO)
def test_the_plan_to_start_from_fits(name: str) -> None:
    entry = ZOO[name]
    assert prod(size for _, size in entry.mesh) == cluster(entry.cluster).device_count
    plan = Plan.new(
        load_zoo(name), cluster=entry.cluster, mesh=dict(entry.mesh), global_batch=entry.batch, seq=entry.seq,
        microbatches=entry.microbatches,
    )  # fmt: skip
    for preset, axis in entry.presets:
        plan = plan.preset(preset, axis=axis)
    report = evaluate(plan)
    assert report.memory.value <= report.capacity_bytes
    assert not [found for found in report.diagnostics if found.severity == "error"]
    assert entry.batch % entry.microbatches == 0
