"""The physical machines: devices, links, nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One accelerator.

    Parameters
    ----------
    name
        Catalogue name, e.g. `h100-sxm`.
    peak_flops
        Pairs (dtype, dense FLOP/s).
    matmul_efficiency, memory_efficiency
        Fractions of the peaks that large kernels reach.
    memory_bytes, memory_bandwidth
        Capacity in bytes, bandwidth in bytes/s.
    kernel_floor_s
        Shortest time that a kernel takes.
    reserved_bytes
        Memory that context and communication buffers take before the first tensor.
    """

    name: str
    peak_flops: tuple[tuple[str, float], ...]
    matmul_efficiency: float
    memory_efficiency: float
    memory_bytes: float
    memory_bandwidth: float
    kernel_floor_s: float
    reserved_bytes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """A link class: `bandwidth` in bytes/s per device and direction, `latency_s` per message, `efficiency` reached."""

    name: str
    bandwidth: float
    latency_s: float
    efficiency: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """`nodes` machines of `devices_per_node` devices; `intra` links inside a node, `inter` between nodes."""

    name: str
    nodes: int
    devices_per_node: int
    device: DeviceSpec
    intra: LinkSpec
    inter: LinkSpec

    @property
    def device_count(self) -> int:
        """Number of devices."""
        return self.nodes * self.devices_per_node
