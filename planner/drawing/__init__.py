"""Verb: a training graph and its prices → what a person looks at."""

from __future__ import annotations

from .tensor import tensor_of
from .view import draw, node_choices

__all__ = ["draw", "node_choices", "tensor_of"]
