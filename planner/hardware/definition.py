"""The shape of an entry in the table `HARDWARE`: a device with the links that its nodes have."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeGuard

from ..core.cluster import DeviceSpec, HostSpec, LinkSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """One device type and the nodes that it comes in.

    Parameters
    ----------
    node_devices
        Most devices that a node has; beyond them the `inter` link begins.
    sources
        Pairs (path of a number in the catalogue file, where the number comes from), for every number.
    """

    name: str
    summary: str
    node_devices: int
    device: DeviceSpec
    intra: LinkSpec
    inter: LinkSpec
    sources: tuple[tuple[str, str], ...]

    def source(self, path: str) -> str:
        """Return where a number comes from, e.g. of `intra.bandwidth`; KeyError for an unknown one."""
        return dict(self.sources)[path]


def parse(text: str) -> Hardware:
    """Read a catalogue file: each number is a table of `value` and `source`.

    Raises
    ------
    ValueError
        When a number has no source or is none; a catalogue file is part of the program, so this is
        a bug in it and not an error that a user can make.
    """
    raw = tomllib.loads(text)
    numbers, sources = _numbers(raw)
    links = {place: _link(raw[place]["name"], place, numbers) for place in ("intra", "inter")}
    device = DeviceSpec(
        name=raw["name"],
        peak_flops=_pairs("device.peak_flops.", numbers),
        matmul_efficiency=numbers["device.matmul_efficiency"],
        memory_efficiency=numbers["device.memory_efficiency"],
        memory_bytes=numbers["device.memory_bytes"],
        memory_bandwidth=numbers["device.memory_bandwidth"],
        kernel_floor_s=numbers["device.kernel_floor_s"],
        reserved_bytes=numbers["device.reserved_bytes"],
        host=HostSpec(
            bandwidth=numbers["host.bandwidth"],
            efficiency=numbers["host.efficiency"],
            memory_bandwidth=numbers["host.memory_bandwidth"],
        ),
        op_efficiency=_pairs("device.op_efficiency.", numbers),
    )
    return Hardware(
        name=raw["name"],
        summary=raw["summary"],
        node_devices=int(numbers["node.devices"]),
        device=device,
        intra=links["intra"],
        inter=links["inter"],
        sources=tuple(sources.items()),
    )


def _link(name: str, place: str, numbers: Mapping[str, float]) -> LinkSpec:
    return LinkSpec(
        name=name,
        bandwidth=numbers[f"{place}.bandwidth"],
        latency_s=numbers[f"{place}.latency_s"],
        efficiency=numbers[f"{place}.efficiency"],
        setup_s=numbers[f"{place}.setup_s"],
        in_switch_efficiency=numbers.get(f"{place}.in_switch_efficiency", 0.0),
    )


def _pairs(prefix: str, numbers: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple((path.removeprefix(prefix), value) for path, value in numbers.items() if path.startswith(prefix))


def _numbers(raw: Mapping[str, object]) -> tuple[dict[str, float], dict[str, str]]:
    numbers: dict[str, float] = {}
    sources: dict[str, str] = {}

    def visit(table: Mapping[str, object], prefix: str) -> None:
        if "value" in table:
            value, source = table["value"], table.get("source")
            if not isinstance(value, int | float) or not isinstance(source, str) or not source:
                raise ValueError(f"{prefix}: a number needs a value and a source")
            numbers[prefix], sources[prefix] = float(value), source
            return
        for key, entry in table.items():
            path = f"{prefix}.{key}" if prefix else key
            if _is_table(entry):
                visit(entry, path)
            elif not isinstance(entry, str):
                raise ValueError(f"{path}: {entry!r} has no source")

    visit(raw, "")
    return numbers, sources


def _is_table(entry: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(entry, dict)
