"""What this installation knows: tables for menus and help, and example clusters."""

from __future__ import annotations

from importlib.metadata import version
from importlib.util import find_spec

from planner.collectives import COLLECTIVES
from planner.core.cluster import ClusterSpec
from planner.core.tensor import DTYPE_BYTES
from planner.exporters import EXPORTERS
from planner.hardware import HARDWARE, PRECISIONS, cluster
from planner.ops import OPS
from planner.presets import PRESETS

from ..schemas import Cluster, DeviceEntry, Entry, PresetEntry, Registry
from . import api_router

router = api_router("registry")

SIZES = ("1x8", "2x8", "8x8", "32x8", "128x8", "2048x8")


@router.get("/registry")
def registry() -> Registry:
    """Return the planner's tables."""
    return Registry(
        version=version("shardwright"),
        torch=find_spec("torch") is not None,
        operators=[Entry(name=op.name, summary=op.summary) for op in OPS.values()],
        collectives=[Entry(name=c.name, summary=c.summary) for c in COLLECTIVES.values()],
        presets=[
            PresetEntry(
                name=p.name, summary=p.summary, axes=list(p.axes), recompute=[d.target for d in p.recompute if d.again]
            )
            for p in PRESETS.values()
        ],
        devices=[
            DeviceEntry(name=h.name, summary=h.summary, memory_bytes=h.device.memory_bytes, node_devices=h.node_devices)
            for h in HARDWARE.values()
        ],
        precisions=list(PRECISIONS),
        dtypes=list(DTYPE_BYTES),
        exporters=[Entry(name=e.name, summary=e.summary) for e in EXPORTERS.values()],
    )


@router.get("/clusters")
def clusters() -> list[Cluster]:
    """Return clusters of usual sizes of every device; any other may be named too."""
    return [_answer(cluster(f"{size}-{device}")) for device in HARDWARE for size in SIZES]


@router.get("/clusters/{name}")
def cluster_by_name(name: str) -> Cluster:
    """Return the cluster that a name stands for."""
    return _answer(cluster(name))


def _answer(found: ClusterSpec) -> Cluster:
    return Cluster(
        name=found.name, devices=found.device_count, device=found.device.name, memory_bytes=found.device.memory_bytes
    )
