"""Verb: a plan's decisions ↔ the text of a plan file."""

from __future__ import annotations

from .read_write import read, write

__all__ = ["read", "write"]
