"""Verb: a training graph and its prices → what a person looks at."""

from __future__ import annotations

from .moved import Moved, moved
from .reason import leg_reason, step_reason
from .tensor import tensor_of
from .view import draw, node_choices

__all__ = ["Moved", "draw", "leg_reason", "moved", "node_choices", "step_reason", "tensor_of"]
