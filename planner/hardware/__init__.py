"""Facts: devices and links, each number with its source. The table `HARDWARE` has one entry a catalogue file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType

from ..core.cluster import ClusterSpec
from ..errors import PlannerError
from .definition import Hardware, parse
from .precision import PRECISIONS, has_master, optimizer_bytes, precision

__all__ = [
    "DEFAULT_DEVICE",
    "HARDWARE",
    "PRECISIONS",
    "Hardware",
    "cluster",
    "cluster_name",
    "has_master",
    "optimizer_bytes",
    "precision",
]


def _load() -> Mapping[str, Hardware]:
    catalog = files(__package__) / "catalog"
    entries = [parse(file.read_text("utf-8")) for file in catalog.iterdir() if file.name.endswith(".toml")]
    return MappingProxyType({entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)})


HARDWARE: Mapping[str, Hardware] = _load()


DEFAULT_DEVICE = "h100-sxm"


def cluster_name(devices: int, device: str = DEFAULT_DEVICE) -> str:
    """Return the cluster of so many devices where none is named: one node, or the fewest equal ones that there can be.

    Examples
    --------
    >>> cluster_name(4), cluster_name(12), cluster_name(16)
    ('1x4-h100-sxm', '2x6-h100-sxm', '2x8-h100-sxm')
    """
    most = min(HARDWARE[device].node_devices, devices)
    each = next(size for size in range(most, 0, -1) if devices % size == 0)
    return f"{devices // each}x{each}-{device}"


def cluster(name: str) -> ClusterSpec:
    """Return the cluster that a name such as `8x8-h100-sxm` stands for: nodes × devices per node - device.

    Raises
    ------
    PlannerError
        `hardware.cluster-syntax`, `hardware.device-unknown`, `hardware.node-size`.

    Examples
    --------
    >>> cluster("2048x8-h100-sxm").device_count
    16384
    """
    match = re.fullmatch(r"([1-9]\d{0,5})x([1-9]\d{0,3})-([a-z0-9-]{1,64})", name)
    if match is None:
        raise PlannerError(
            "hardware.cluster-syntax",
            f"{name!r} is not the name of a cluster.",
            "Write nodes × devices per node - device, e.g. 8x8-h100-sxm.",
            subject="cluster",
        )
    nodes, devices = int(match[1]), int(match[2])
    if match[3] not in HARDWARE:
        raise PlannerError(
            "hardware.device-unknown",
            f"Cluster {name!r}: there is no device {match[3]!r}.",
            f"Use one of: {', '.join(HARDWARE)}.",
            subject="cluster",
        )
    entry = HARDWARE[match[3]]
    if devices > entry.node_devices:
        raise PlannerError(
            "hardware.node-size",
            f"Cluster {name!r}: a node has {devices} devices, but {entry.name} comes in nodes of "
            f"at most {entry.node_devices}.",
            f"Use more nodes, e.g. {-(-nodes * devices // entry.node_devices)}x{entry.node_devices}-{entry.name}.",
            subject="cluster",
        )
    return ClusterSpec(
        name=name,
        nodes=nodes,
        devices_per_node=devices,
        device=entry.device,
        intra=entry.intra,
        inter=entry.inter,
    )
