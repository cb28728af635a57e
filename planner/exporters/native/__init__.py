"""The native exporter: plans that `parallelize_module`, `fully_shard` and pipelining express → the script by hand."""

from __future__ import annotations

from .bundle import export_native

__all__ = ["export_native"]
