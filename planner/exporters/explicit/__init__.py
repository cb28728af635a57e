"""The general exporter: any plan → readable modules on local shards, with every resharding an explicit call."""

from __future__ import annotations

from .bundle import export_bundle, mark_bundle, stage_text

__all__ = ["export_bundle", "mark_bundle", "stage_text"]
