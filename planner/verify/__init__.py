"""Verb: holds each stage's result to its invariants, and returns every finding at once."""

from __future__ import annotations

from .graph import verify_graph

__all__ = ["verify_graph"]
