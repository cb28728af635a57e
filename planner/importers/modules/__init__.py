"""Architectures that transformers has no class for, as modules of torch; the table `ARCHITECTURES` has a row each.

The table itself needs no torch: a module is imported when it is made.
"""

from __future__ import annotations

from .architectures import ARCHITECTURES
from .source import KIND, ModuleSource, read_source

__all__ = ["ARCHITECTURES", "KIND", "ModuleSource", "read_source"]
