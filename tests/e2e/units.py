"""The page's way of writing numbers, written down a second time: what a person reads is held to what REST answers."""

from __future__ import annotations


def in_bytes(value: float) -> str:
    unit = 0
    while abs(value) >= 1024 and unit < 5:
        value, unit = value / 1024, unit + 1
    return f"{value:.{min(unit, 1)}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')[unit]}"


def in_memory(value: float) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if abs(value) >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} B"


def in_seconds(value: float) -> str:
    if abs(value) < 1e-12:
        return "0 s"
    for size, unit, digits in ((1.0, "s", 2), (1e-3, "ms", 2)):
        if abs(value) >= size:
            return f"{value / size:.{digits}f} {unit}"
    return f"{value * 1e6:.1f} µs"
