"""The native exporter: plans that `parallelize_module` and `fully_shard` express → the script one writes by hand."""

from __future__ import annotations

from .bundle import export_native

__all__ = ["export_native"]
