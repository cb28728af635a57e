"""Numbers as people read them."""

from __future__ import annotations


def format_bytes(value: float) -> str:
    """Return bytes in binary units, e.g. `8.0 MiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError


def format_seconds(value: float) -> str:
    """Return seconds in s, ms or µs."""
    if abs(value) >= 1:
        return f"{value:.2f} s"
    if abs(value) >= 1e-3:
        return f"{value * 1e3:.2f} ms"
    return f"{value * 1e6:.1f} µs"


def format_count(value: float) -> str:
    """Return a large count with a decimal prefix, e.g. `8.03 B` for billions."""
    for unit in ("", "K", "M", "B", "T", "P", "E", "Z"):
        if abs(value) < 1000 or unit == "Z":
            return f"{value:.3g} {unit}".strip()
        value /= 1000
    raise AssertionError
