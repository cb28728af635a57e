"""The noun between lowering and finding layers."""

from __future__ import annotations

from dataclasses import dataclass

from ....core.graph import Block


@dataclass(frozen=True, slots=True, kw_only=True)
class Flat:
    """A model's operators before its layers are found.

    Parameters
    ----------
    block
        The root without repeats; names have the indices of layers.
    logits
        Name of the value that the loss is taken of; empty if that is not known.
    """

    block: Block
    logits: str = ""
