"""The physical machines: devices, links, nodes."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import LayoutError
from .mesh import DeviceMesh


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSpec:
    """What a device has of the machine that it is in.

    Parameters
    ----------
    bandwidth
        Bytes/s between the host's memory and the device, in each direction.
    efficiency
        Fraction of it that large copies reach.
    memory_bandwidth
        Bytes/s of the host's memory, a device's share of it.
    """

    bandwidth: float
    efficiency: float
    memory_bandwidth: float


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
    op_efficiency
        Pairs (operator, fraction of the peak) for operators whose kernels reach another fraction than large matrix
        products, e.g. `attention`.
    host
        The machine around it.
    """

    name: str
    peak_flops: tuple[tuple[str, float], ...]
    matmul_efficiency: float
    memory_efficiency: float
    memory_bytes: float
    memory_bandwidth: float
    kernel_floor_s: float
    reserved_bytes: float
    host: HostSpec
    op_efficiency: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSpec:
    """A link class.

    Parameters
    ----------
    bandwidth
        Bytes/s per device and direction.
    latency_s
        Seconds per message from one device to the next.
    efficiency
        Fraction of the bandwidth that large transfers reach.
    setup_s
        Seconds that a collective takes before its first message: launch, and waiting for the slowest rank.
    in_switch_efficiency
        Fraction of the bandwidth at which the switch reduces: it takes each buffer once and gives the sum once. Zero if
        the switch can't reduce.
    """

    name: str
    bandwidth: float
    latency_s: float
    efficiency: float
    setup_s: float = 0.0
    in_switch_efficiency: float = 0.0


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

    def must_fit(self, mesh: DeviceMesh) -> None:
        """Refuse a mesh that has not one rank for every device.

        Raises
        ------
        LayoutError
            `mesh.device-count`.
        """
        if mesh.device_count != self.device_count:
            raise LayoutError(
                "mesh.device-count",
                f"The mesh {mesh} has {mesh.device_count} ranks, the cluster {self.name} has "
                f"{self.device_count} devices.",
                "Make the axis sizes multiply to the number of devices, or choose another cluster.",
            )
